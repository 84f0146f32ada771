// The queue as people want to look at it: found by words, in an order, with the jobs of a group as one row.

import type { Job } from "../api/contract";
import { secondsBetween } from "./format";

export type Order = "queue" | "newest" | "longest" | "name" | "user" | "gpus" | "priority";

export const ORDERS: readonly [Order, string][] = [
  ["queue", "order of the queue"],
  ["newest", "newest first"],
  ["longest", "longest first"],
  ["priority", "highest priority"],
  ["gpus", "most GPUs"],
  ["name", "name"],
  ["user", "user"],
];

/** One row of a table: a job, or jobs of one group. */
export interface QueueRow {
  key: string;
  /** The job, or the first of the group. */
  job: Job;
  /** Null where the row is a single job. */
  group: number | null;
  jobs: Job[];
}

/** Every word must be somewhere in the job's number, name, user, project, state or parameters. */
export function matches(job: Job, search: string): boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const parameters = Object.entries(job.params ?? {}).map(([name, value]) => `${name}=${value}`);
  const text = [String(job.id), job.name ?? "", job.user, job.project ?? "", job.state, ...job.gpu_types, ...parameters]
    .join("\n")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A reason without the expected start, which the page shows in a line of its own. */
export const withoutStart = (reason: string) => reason.replace(/; starts about [^;]*/, "");

const byText = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });

/** Seconds that a job has run or waited. */
const age = (job: Job, now: number) => secondsBetween(job.started_at ?? job.submitted_at, now) ?? 0;

export function sorted(jobs: readonly Job[], order: Order, now: number): Job[] {
  const list = [...jobs];
  const compare: Record<Order, (a: Job, b: Job) => number> = {
    queue: () => 0,
    newest: (a, b) => b.id - a.id,
    longest: (a, b) => age(b, now) - age(a, now),
    name: (a, b) => byText(a.name ?? "", b.name ?? ""),
    user: (a, b) => byText(a.user, b.user),
    gpus: (a, b) => b.gpus_requested - a.gpus_requested,
    priority: (a, b) => b.priority - a.priority,
  };
  // The order of arrival decides between jobs that are otherwise alike: sorting keeps it.
  return list.sort(compare[order]);
}

/** Jobs of a group become one row, in the place of the first of them. */
export function folded(jobs: readonly Job[]): QueueRow[] {
  const rows: QueueRow[] = [];
  const groups = new Map<number, QueueRow>();
  for (const job of jobs) {
    const known = job.group === null || job.group === undefined ? undefined : groups.get(job.group);
    if (known) {
      known.jobs.push(job);
      continue;
    }
    const group = job.group ?? null;
    const row: QueueRow = { key: group === null ? `job ${job.id}` : `group ${group}`, job, group, jobs: [job] };
    if (group !== null) groups.set(group, row);
    rows.push(row);
  }
  return rows;
}

/** The name that the members of a group share: `bert` of `bert[lr=0.1]`. */
export const groupName = (job: Job) => (job.name ?? "").replace(/\[[^[\]]*\]$/, "") || `group ${job.group ?? job.id}`;
