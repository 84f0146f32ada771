// Now: every GPU with who is on it, and the queue with its reasons.

import { RUNS } from "../../api/contract";
import { ended, jobs, status } from "../../live/store";
import { plural } from "../../logic/format";
import { Empty, Loading } from "../../parts/notice";
import { GpuCard } from "./gpu-card";
import { EndedTable, RunningTable, WaitingTable } from "./queue";

function Warnings() {
  const seen = status.value;
  if (!seen || (seen.warnings.length === 0 && !seen.draining)) return null;
  return (
    <div class="notice warning" role="status">
      {seen.draining && <p>The queue is draining: nothing more is started. `rota resume` ends that.</p>}
      {seen.warnings.map((warning) => (
        <p key={warning}>{warning}</p>
      ))}
    </div>
  );
}

/** Three or four cards abreast, whichever leaves the smaller hole; fewer GPUs get wider cards. */
export function columnsFor(count: number): number {
  if (count <= 4) return Math.max(2, count);
  const hole = (columns: number) => (columns - (count % columns)) % columns;
  return hole(4) <= hole(3) ? 4 : 3;
}

function Gpus() {
  const seen = status.value;
  if (!seen) return <Loading what="the GPUs" />;
  if (seen.gpus.length === 0) {
    return (
      <Empty>
        No GPU was found. To try everything without one: <code>rota up --virtual-gpus a100:2,t4:2</code>
      </Empty>
    );
  }
  const hasNodes = seen.gpus.some((gpu) => gpu.node !== seen.gpus[0]?.node);
  return (
    <div class="gpu-cards" style={{ "--columns": columnsFor(seen.gpus.length) }}>
      {seen.gpus.map((gpu) => (
        <GpuCard key={gpu.uuid} gpu={gpu} node={hasNodes ? gpu.node : undefined} />
      ))}
    </div>
  );
}

export function Now() {
  const seen = status.value;
  const listed = jobs.value;
  const busy = seen?.gpus.filter((gpu) => gpu.jobs.length > 0).length ?? 0;
  const watts = seen?.gpus.reduce((sum, gpu) => sum + (gpu.power_watts ?? 0), 0) ?? 0;
  const running = (listed ?? []).filter((job) => RUNS.includes(job.state));
  const waiting = (listed ?? []).filter((job) => !RUNS.includes(job.state));
  return (
    <>
      <h1 class="unseen">Now</h1>
      <Warnings />
      <section aria-label="GPUs">
        <div class="section-head">
          <h2>GPUs</h2>
          {seen && (
            <p class="quiet-text">
              {busy} of {seen.gpus.length} in use · {Math.round(watts).toLocaleString("en")} W · policy <code>{seen.policy}</code>
            </p>
          )}
        </div>
        <Gpus />
      </section>
      {listed === null ? (
        <Loading what="the queue" />
      ) : listed.length === 0 && ended.value.length === 0 ? (
        <Empty>
          No jobs yet. Try: <code>rota submit --name hello -- nvidia-smi</code>
        </Empty>
      ) : (
        <>
          <section aria-label="running jobs">
            <div class="section-head">
              <h2>Running</h2>
              <p class="quiet-text">{plural(running.length, "job")}</p>
            </div>
            <RunningTable jobs={running} />
          </section>
          <section aria-label="waiting jobs">
            <div class="section-head">
              <h2>Waiting</h2>
              <p class="quiet-text">{plural(waiting.length, "job")}</p>
            </div>
            <WaitingTable jobs={waiting} />
          </section>
          {ended.value.length > 0 && (
            <section aria-label="jobs that just ended">
              <div class="section-head">
                <h2>Just ended</h2>
                <p class="quiet-text">
                  <a href="#/history">all of the past</a>
                </p>
              </div>
              <EndedTable jobs={ended.value} />
            </section>
          )}
        </>
      )}
    </>
  );
}
