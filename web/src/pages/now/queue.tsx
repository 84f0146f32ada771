// The tables of the queue: who runs, who waits and why, who just ended.

import { useState } from "preact/hooks";
import type { Job } from "../../api/contract";
import { expected, now } from "../../live/store";
import { duration, inLocalTime, moment, secondsBetween, wattHours } from "../../logic/format";
import { Actions } from "../../parts/actions";
import { gpusOf, JobLink, StateMark } from "../../parts/job";

const ROWS_AT_FIRST = 100;

/** A long queue is shown in part; a table of thousands of rows helps nobody. */
function useFirst(rows: Job[]) {
  const [limit, setLimit] = useState(ROWS_AT_FIRST);
  const rest = rows.length - limit;
  const more =
    rest > 0 ? (
      <button type="button" class="more" onClick={() => setLimit(limit + 200)}>
        show more ({rest.toLocaleString("en")} are left)
      </button>
    ) : null;
  return { shown: rows.slice(0, limit), more };
}

function JobCell(props: { job: Job }) {
  return (
    <td class="job-cell">
      <JobLink id={props.job.id} name={props.job.name ?? null} />
      <span class="quiet-text number">{props.job.id}</span>
    </td>
  );
}

const UserCell = (props: { job: Job }) => (
  <td data-label="user">
    <bdi>{props.job.user}</bdi>
  </td>
);

/** How far it is, by its own estimate. */
function Progress(props: { job: Job; ran: number | null }) {
  const { estimate_seconds: estimate } = props.job;
  if (!estimate || props.ran === null) return null;
  const part = Math.min(1, props.ran / estimate);
  return (
    <span class="progress" role="img" aria-label={`${Math.round(part * 100)} % of its estimate`}>
      <i class={props.ran > estimate ? "over" : ""} style={{ width: `${part * 100}%` }} />
    </span>
  );
}

export function RunningTable(props: { jobs: Job[] }) {
  const { shown, more } = useFirst(props.jobs);
  if (shown.length === 0) return <p class="notice">Nothing runs.</p>;
  return (
    <>
      <table class="jobs fixed">
        <thead>
          <tr>
            <th class="c-job">job</th>
            <th class="c-user">user</th>
            <th class="c-state">state</th>
            <th class="c-gpus">GPUs</th>
            <th class="number c-time">runs for</th>
            <th>of its estimate</th>
            <th class="c-actions">
              <span class="unseen">actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((job) => {
            const ran = secondsBetween(job.started_at, now.value);
            return (
              <tr key={job.id}>
                <JobCell job={job} />
                <UserCell job={job} />
                <td>
                  <StateMark state={job.state} />
                </td>
                <td data-label="GPU">{gpusOf(job)}</td>
                <td class="number" data-label="runs for">
                  {duration(ran === null ? null : Math.max(0, Math.round(ran)))}
                </td>
                <td class="wide-cell">
                  <Progress job={job} ran={ran} />
                  {job.estimate_seconds ? (
                    <span class="quiet-text">{duration(job.estimate_seconds)}</span>
                  ) : (
                    <span class="quiet-text">none given</span>
                  )}
                </td>
                <td class="action-cell">
                  <Actions job={job} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {more}
    </>
  );
}

function ExpectedStart(props: { job: Job }) {
  const at = expected.value.get(props.job.id);
  if (props.job.state === "held" || !at) return <span class="quiet-text">not known</span>;
  const wait = secondsBetween(new Date(now.value).toISOString(), at) ?? 0;
  // The GPUs are there, but somebody's turn is before.
  if (wait <= 1) return <>at any moment</>;
  return (
    <>
      {moment(at, now.value)} <span class="quiet-text">in {duration(Math.round(wait))}</span>
    </>
  );
}

export function WaitingTable(props: { jobs: Job[] }) {
  const { shown, more } = useFirst(props.jobs);
  if (shown.length === 0) return <p class="notice">Nobody waits.</p>;
  return (
    <>
      <table class="jobs fixed">
        <thead>
          <tr>
            <th class="c-job">job</th>
            <th class="c-user">user</th>
            <th class="c-state">state</th>
            <th class="c-gpus">asks for</th>
            <th class="number c-time">waits for</th>
            <th>reason</th>
            <th class="c-expected">expected start</th>
            <th class="c-actions">
              <span class="unseen">actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((job) => (
            <tr key={job.id}>
              <JobCell job={job} />
              <UserCell job={job} />
              <td>
                <StateMark state={job.state} />
                {job.priority !== 0 && <span class="chip">priority {job.priority}</span>}
              </td>
              <td data-label="asks for">{gpusOf(job)}</td>
              <td class="number" data-label="waits for">
                {duration(Math.max(0, Math.round(secondsBetween(job.submitted_at, now.value) ?? 0)))}
              </td>
              <td class="reason">
                {job.reason ? inLocalTime(job.reason, now.value) : job.state === "held" ? "held until it is released" : ""}
              </td>
              <td data-label="expected">
                <ExpectedStart job={job} />
              </td>
              <td class="action-cell">
                <Actions job={job} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more}
    </>
  );
}

export function EndedTable(props: { jobs: Job[] }) {
  return (
    <table class="jobs fixed">
      <thead>
        <tr>
          <th class="c-job">job</th>
          <th class="c-user">user</th>
          <th class="c-state">state</th>
          <th class="c-gpus">GPUs</th>
          <th class="number c-time">ran for</th>
          <th class="number c-time">energy</th>
          <th>ended</th>
          <th class="c-actions">
            <span class="unseen">actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.jobs.map((job) => (
          <tr key={job.id}>
            <JobCell job={job} />
            <UserCell job={job} />
            <td>
              <StateMark state={job.state} />
            </td>
            <td data-label="GPU">{gpusOf(job)}</td>
            <td class="number" data-label="ran for">
              {duration(secondsBetween(job.started_at, job.finished_at))}
            </td>
            <td class="number" data-label="energy">
              {wattHours(job.energy_wh)}
            </td>
            <td data-label="ended">{moment(job.finished_at, now.value)}</td>
            <td class="action-cell">
              <Actions job={job} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
