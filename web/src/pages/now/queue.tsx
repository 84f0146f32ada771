// The tables of the queue: jobs that run, jobs that wait and why, jobs that just ended. The jobs of a group are one row that unfolds.

import { useState } from "preact/hooks";
import type { Group, Job } from "../../api/contract";
import { expected, now } from "../../live/store";
import { duration, inLocalTime, moment, plural, secondsBetween, wattHours } from "../../logic/format";
import { folded, groupName, type QueueRow, withoutStart } from "../../logic/queue";
import { Actions } from "../../parts/actions";
import { gpusOf, JobLink, StateMark } from "../../parts/job";
import { GroupActions, GroupCounts, GroupMembers } from "./group";

const ROWS_AT_FIRST = 60;

/** A long queue is shown in part; a table of thousands of rows helps nobody. */
function useFirst<Row>(rows: Row[]) {
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
  const { job } = props;
  return (
    <td class="job-cell">
      <JobLink id={job.id} name={job.name ?? null} />
      <span class="under-name">
        <StateMark state={job.state} />
        <span class="number">{job.id}</span>
        <bdi>{job.user}</bdi>
        {job.priority !== 0 && <span class="chip">priority {job.priority}</span>}
      </span>
    </td>
  );
}

/** How far it is, by its own estimate. */
function Progress(props: { job: Job; ran: number | null }) {
  const { estimate_seconds: estimate } = props.job;
  if (!estimate || props.ran === null) return null;
  const part = Math.min(1, props.ran / estimate);
  return (
    <span class="progress" role="img" aria-label={`${Math.round(part * 100)} % of its estimate of ${duration(estimate)}`}>
      <i class={props.ran > estimate ? "over" : ""} style={{ width: `${part * 100}%` }} />
    </span>
  );
}

interface TableProps {
  jobs: Job[];
  groups: ReadonlyMap<number, Group>;
  isFolded: boolean;
  /** What is said where no job is there. */
  nothing: string;
  label: string;
  heads: [string, string][];
  cells(job: Job): preact.JSX.Element;
}

function GroupRows(props: { row: QueueRow; table: TableProps }) {
  const [isOpen, setIsOpen] = useState(false);
  const { row, table } = props;
  const group = row.group as number;
  const known = table.groups.get(group);
  return (
    <>
      <tr class="group-row">
        <td class="job-cell">
          <button type="button" class="unfold" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
            <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <bdi>{known?.name || groupName(row.job)}</bdi>
          </button>
          <span class="under-name">
            <span>{plural(row.jobs.length, "job")} here</span>
            <span class="number">group {group}</span>
            <bdi>{row.job.user}</bdi>
          </span>
        </td>
        <td colSpan={table.heads.length - 2}>{known ? <GroupCounts counts={known.counts} /> : null}</td>
        <td class="action-cell">
          <GroupActions group={group} name={known?.name || groupName(row.job)} job={row.job} counts={known?.counts} />
        </td>
      </tr>
      {isOpen && (
        <tr class="group-members">
          <td colSpan={table.heads.length}>
            <GroupMembers group={group} />
          </td>
        </tr>
      )}
    </>
  );
}

function QueueTable(props: TableProps) {
  const alone = (job: Job): QueueRow => ({ key: `job ${job.id}`, job, group: null, jobs: [job] });
  const rows = props.isFolded ? folded(props.jobs) : props.jobs.map(alone);
  const { shown, more } = useFirst(rows);
  if (shown.length === 0) return <p class="notice">{props.nothing}</p>;
  return (
    <>
      <table class="jobs queue" aria-label={props.label}>
        <thead>
          <tr>
            {props.heads.map(([name, style]) => (
              <th key={name} class={style}>
                {name === "actions" ? <span class="unseen">actions</span> : name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) =>
            row.group !== null ? (
              <GroupRows key={row.key} row={row} table={props} />
            ) : (
              <tr key={row.key}>
                <JobCell job={row.job} />
                {props.cells(row.job)}
                <td class="action-cell">
                  <Actions job={row.job} />
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
      {more}
    </>
  );
}

type ListProps = Pick<TableProps, "jobs" | "groups" | "isFolded"> & { isSearched: boolean };

export function RunningTable(props: ListProps) {
  const cells = (job: Job) => {
    const ran = secondsBetween(job.started_at, now.value);
    return (
      <>
        <td data-label="GPU">{gpusOf(job)}</td>
        <td class="wide-cell" data-label="runs for">
          {duration(ran === null ? null : Math.max(0, Math.round(ran)))}
          {job.estimate_seconds ? <span class="quiet-text"> of {duration(job.estimate_seconds)}</span> : null}
          <Progress job={job} ran={ran} />
        </td>
      </>
    );
  };
  return (
    <QueueTable
      {...props}
      label="jobs that run"
      nothing={props.isSearched ? "No running job matches." : "No job is running."}
      heads={[
        ["job", "c-job"],
        ["GPUs", "c-gpus"],
        ["runs for", ""],
        ["actions", "c-actions"],
      ]}
      cells={cells}
    />
  );
}

function ExpectedStart(props: { job: Job }) {
  const at = props.job.start_p50 ?? expected.value.get(props.job.id);
  if (props.job.state === "held") return null;
  if (!at) return <span class="expected">start not known</span>;
  const wait = secondsBetween(new Date(now.value).toISOString(), at) ?? 0;
  // The GPUs are there, but another job's turn is before.
  if (wait <= 1) return <span class="expected">expected at any moment</span>;
  return (
    <span class="expected">
      expected {moment(at, now.value)}, in {duration(Math.round(wait))}
    </span>
  );
}

export function WaitingTable(props: ListProps) {
  const cells = (job: Job) => (
    <>
      <td data-label="asks for">
        {gpusOf(job)}
        <span class="under-name">
          {duration(Math.max(0, Math.round(secondsBetween(job.submitted_at, now.value) ?? 0)))} waiting
        </span>
      </td>
      <td class="reason">
        {job.reason ? inLocalTime(withoutStart(job.reason), now.value) : job.state === "held" ? "held until it is released" : ""}
        <ExpectedStart job={job} />
      </td>
    </>
  );
  return (
    <QueueTable
      {...props}
      label="jobs that wait"
      nothing={props.isSearched ? "No waiting job matches." : "No job is waiting."}
      heads={[
        ["job", "c-job"],
        ["asks for", "c-gpus"],
        ["why it waits", ""],
        ["actions", "c-actions"],
      ]}
      cells={cells}
    />
  );
}

export function EndedTable(props: { jobs: Job[] }) {
  return (
    <table class="jobs queue" aria-label="jobs that just ended">
      <thead>
        <tr>
          <th class="c-job">job</th>
          <th class="c-gpus">GPUs</th>
          <th class="c-time">ran for</th>
          <th class="c-time">energy</th>
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
            <td data-label="GPU">{gpusOf(job)}</td>
            <td data-label="ran for">{duration(secondsBetween(job.started_at, job.finished_at))}</td>
            <td data-label="energy">{wattHours(job.energy_wh)}</td>
            <td data-label="ended">
              {moment(job.finished_at, now.value)}
              {job.reason && job.state !== "done" ? <span class="under-name">{job.reason}</span> : null}
            </td>
            <td class="action-cell">
              <Actions job={job} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
