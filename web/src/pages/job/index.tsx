// One job: what became of it, what it does now, what it writes.

import { useEffect, useState } from "preact/hooks";
import { call } from "../../api/client";
import { isOver, type Job, runs } from "../../api/contract";
import { changes, ended, jobs, now } from "../../live/store";
import { colourOfJob } from "../../logic/colours";
import { progressOf } from "../../logic/progress";
import { lastWords } from "../../logic/traceback";
import { Actions } from "../../parts/actions";
import { useAnswer } from "../../parts/answer";
import { JobLink, nameOf, StateMark, Swatch } from "../../parts/job";
import { Empty, Loading, Trouble } from "../../parts/notice";
import { go } from "../../route";
import { lastJob } from "../../shortcuts";
import { Curves } from "./curves";
import { Facts } from "./facts";
import { LogView } from "./log-view";
import { Story } from "./story";
import { Training } from "./training";
import { Why } from "./why";

export function JobPage(props: { item: string | null }) {
  if (props.item === null || !/^\d+$/.test(props.item)) return <Chooser given={props.item} />;
  return <OneJob id={Number(props.item)} />;
}

/** No number in the address: the newest to choose from, or a number to type. */
function Chooser(props: { given: string | null }) {
  const newest = [...(jobs.value ?? []), ...ended.value].sort((a, b) => b.id - a.id).slice(0, 12);
  const open = (event: Event) => {
    event.preventDefault();
    const field = new FormData(event.currentTarget as HTMLFormElement).get("number");
    if (field) go("job", String(field));
  };
  return (
    <>
      <div class="section-head">
        <h1>Job</h1>
        {props.given !== null && <p class="quiet-text">`{props.given}` is not the number of a job</p>}
      </div>
      <form class="controls" onSubmit={open}>
        <label>
          number <input name="number" inputMode="numeric" pattern="[0-9]+" required size={8} />
        </label>
        <button type="submit">open</button>
      </form>
      {newest.length === 0 ? (
        <Empty>
          No jobs yet. Try: <code>rota submit --name hello -- nvidia-smi</code>
        </Empty>
      ) : (
        <ul class="chooser">
          {newest.map((job) => (
            <li key={job.id}>
              <JobLink id={job.id} name={job.name ?? null} />
              <span class="quiet-text number">{job.id}</span>
              <StateMark state={job.state} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Why the job ended, and the last line of its traceback where it wrote one. */
function HowItEnded(props: { job: Job; said: string | null }) {
  const { job, said } = props;
  const isFailure = job.state === "failed" || job.state === "lost";
  if (!job.reason && !(said && isFailure)) return null;
  return (
    <div class="notice trouble ended" role="status">
      {job.reason && <span>{job.reason}</span>}
      {said && isFailure && <code class="last-words">{said}</code>}
    </div>
  );
}

function OneJob(props: { id: number }) {
  const { id } = props;
  const answer = useAnswer<Job>(String(id), (stop) => call(`jobs/${id}`, { signal: stop }), changes.value);
  useEffect(() => {
    lastJob.value = String(id);
  }, [id]);
  const [end, setEnd] = useState("");
  const job = answer.value;
  if (!job) {
    return answer.problem ? (
      <Trouble what={`job ${id}`} problem={answer.problem} again={answer.again} />
    ) : (
      <Loading what={`job ${id}`} />
    );
  }
  return (
    <>
      <header class="job-head">
        <h1>
          <Swatch colour={colourOfJob(job.id)} />
          <bdi>{nameOf(job)}</bdi>
        </h1>
        <StateMark state={job.state} />
        <p class="quiet-text">
          job {job.id} of <bdi>{job.user}</bdi>
          {job.group ? ` · of group ${job.group}` : ""}
          {job.claim ? " · a claim of a process" : ""}
        </p>
        <Actions job={job} />
      </header>
      {!isOver(job.state) && !runs(job.state) && <Why id={id} />}
      {isOver(job.state) && job.state !== "done" && <HowItEnded job={job} said={lastWords(end)} />}
      <Training job={job} progress={progressOf(end)} />
      <div class="job-columns">
        <Facts job={job} now={now.value} />
        <Story id={id} />
      </div>
      {job.attempts > 0 && job.gpus_requested > 0 && <Curves job={job} />}
      {!job.claim && <LogView job={job} onEnd={setEnd} />}
    </>
  );
}
