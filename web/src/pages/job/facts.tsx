// What a job is, was given and used, as pairs of words.

import type { ComponentChildren } from "preact";
import { isOver, type Job } from "../../api/contract";
import { duration, mib, moment, plain, secondsBetween, shell, wattHours } from "../../logic/format";
import { gpusOf } from "../../parts/job";
import { say } from "../../parts/toast";
import { BadgeOf } from "../../parts/virtual";

function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("copied");
  } catch {
    say("the browser does not allow copying here", "problem");
  }
}

function exitOf(job: Job): string {
  if (job.signal !== null && job.signal !== undefined) return `signal ${job.signal}`;
  return job.exit_code === null || job.exit_code === undefined ? "none" : `code ${job.exit_code}`;
}

function asked(job: Job): string {
  const parts = [job.gpus_requested === 0 ? "no GPU" : `${job.gpus_requested} × ${job.gpu_types.join(" or ") || "any type"}`];
  if (job.memory_mib) parts.push(`${mib(job.memory_mib)} each`);
  if (job.share) parts.push(`${Math.round(job.share * 100)} % of each`);
  if (job.preemptible) parts.push("preemptible");
  return parts.join(", ");
}

export function Facts(props: { job: Job; now: number }) {
  const { job, now } = props;
  const command = shell(job.command);
  const waited = secondsBetween(job.submitted_at, job.started_at ?? job.finished_at ?? now);
  const ran = secondsBetween(job.started_at, job.finished_at ?? now);
  return (
    <section class="panel facts" aria-label="facts">
      <div class="command">
        <pre dir="auto">{command || "a process of its own"}</pre>
        {command && (
          <button type="button" class="quiet" onClick={() => void copy(command)}>
            copy
          </button>
        )}
      </div>
      <dl>
        <Fact name="submitted">{moment(job.submitted_at, now)}</Fact>
        <Fact name={job.started_at ? "waited" : "waits for"}>{duration(waited === null ? null : Math.round(waited))}</Fact>
        <Fact name="started">{moment(job.started_at, now)}</Fact>
        <Fact name={isOver(job.state) ? "ran for" : "runs for"}>{duration(ran === null ? null : Math.round(ran))}</Fact>
        <Fact name="asked for">{asked(job)}</Fact>
        <Fact name="GPUs">
          {job.gpu_indices?.length ? gpusOf(job) : "none now"} {job.gpu_uuids?.[0] && <BadgeOf uuid={job.gpu_uuids[0]} />}
        </Fact>
        <Fact name="peak memory">{mib(job.peak_memory_mib)}</Fact>
        <Fact name="energy">{wattHours(job.energy_wh)}</Fact>
        <Fact name="estimate">{job.estimate_seconds ? duration(job.estimate_seconds) : "none"}</Fact>
        <Fact name="time limit">{job.time_limit_seconds ? duration(job.time_limit_seconds) : "none"}</Fact>
        <Fact name="priority">{job.priority}</Fact>
        <Fact name="attempts">
          {job.attempts}
          {job.retries > 0 ? ` of ${job.retries + 1}` : ""}
        </Fact>
        {job.params && Object.keys(job.params).length > 0 && (
          <Fact name="parameters">
            <bdi>
              {Object.entries(job.params)
                .map(([name, value]) => `${name}=${value}`)
                .join(", ")}
            </bdi>
          </Fact>
        )}
        {isOver(job.state) && <Fact name="exit">{exitOf(job)}</Fact>}
        {job.project && (
          <Fact name="project">
            <bdi>{job.project}</bdi>
          </Fact>
        )}
        {job.after.length > 0 && (
          <Fact name="after">
            {job.after.map((other, at) => (
              <span key={other.id}>
                {at > 0 && ", "}
                <a href={`#/job/${other.id}`}>job {other.id}</a>
                {other.condition === "any" ? " (any end)" : ""}
              </span>
            ))}
          </Fact>
        )}
        <Fact name="folder">
          <bdi class="path">{plain(job.cwd)}</bdi>
        </Fact>
      </dl>
    </section>
  );
}
