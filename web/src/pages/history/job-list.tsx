// The jobs that ended in a stretch of time, page by page, the newest first.

import { useState } from "preact/hooks";
import { isAbort, page, wordsOf } from "../../api/client";
import type { Job } from "../../api/contract";
import { now } from "../../live/store";
import { duration, moment, secondsBetween, shell, wattHours } from "../../logic/format";
import { useAnswer } from "../../parts/answer";
import { gpusOf, JobLink, StateMark } from "../../parts/job";
import { Empty, Loading, Trouble } from "../../parts/notice";
import type { JobFilter } from "./filters";

const PAGE_ROWS = 100;

interface Props {
  from: string;
  to: string;
  isOpenEnded: boolean;
  filter: JobFilter;
  tick: unknown;
}

interface Found {
  rows: Job[];
  next: string | null;
}

async function find(props: Props, cursor: string | null, stop: AbortSignal | null): Promise<Found> {
  const { q, state, user, project } = props.filter;
  const until = props.isOpenEnded ? undefined : props.to;
  const query = { since: props.from, until, q, state, user, project, limit: PAGE_ROWS, cursor };
  const found = await page<Job>("jobs", { query, signal: stop });
  return { rows: found.rows.reverse(), next: found.next };
}

export function JobList(props: Props) {
  const first = useAnswer<Found>("first", (stop) => find(props, null, stop), props.tick);
  const [older, setOlder] = useState<Found | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  if (!first.value) {
    return first.problem ? <Trouble what="jobs" problem={first.problem} again={first.again} /> : <Loading what="jobs" />;
  }
  const next = older ? older.next : first.value.next;
  const seen = new Set(first.value.rows.map((job) => job.id));
  const rows = [...first.value.rows, ...(older?.rows ?? []).filter((job) => !seen.has(job.id))];
  const more = async () => {
    setProblem(null);
    try {
      const found = await find(props, next, null);
      setOlder({ rows: [...(older?.rows ?? []), ...found.rows], next: found.next });
    } catch (error) {
      if (!isAbort(error)) setProblem(wordsOf(error));
    }
  };
  if (rows.length === 0) return <Empty>No job ended in this time that fits.</Empty>;
  return (
    <>
      <table class="jobs">
        <thead>
          <tr>
            <th>job</th>
            <th>user</th>
            <th>project</th>
            <th>state</th>
            <th>GPUs</th>
            <th class="number">waited</th>
            <th class="number">ran for</th>
            <th class="number">energy</th>
            <th>ended</th>
            <th>command</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((job) => (
            <tr key={job.id}>
              <td class="job-cell">
                <JobLink id={job.id} name={job.name ?? null} />
                <span class="quiet-text number">{job.id}</span>
              </td>
              <td data-label="user">
                <bdi>{job.user}</bdi>
              </td>
              <td data-label={job.project ? "project" : undefined}>
                <bdi>{job.project ?? ""}</bdi>
              </td>
              <td>
                <StateMark state={job.state} />
              </td>
              <td data-label="GPU">{gpusOf(job)}</td>
              <td class="number" data-label="waited">
                {duration(secondsBetween(job.submitted_at, job.started_at ?? job.finished_at))}
              </td>
              <td class="number" data-label="ran for">
                {duration(secondsBetween(job.started_at, job.finished_at))}
              </td>
              <td class="number" data-label="energy">
                {wattHours(job.energy_wh)}
              </td>
              <td data-label="ended">{moment(job.finished_at, now.value)}</td>
              <td class="command-cell">
                <code dir="auto">{shell(job.command).slice(0, 300)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {problem && <Trouble what="older jobs" problem={problem} />}
      {next !== null && (
        <button type="button" class="more" onClick={() => void more()}>
          show older
        </button>
      )}
    </>
  );
}
