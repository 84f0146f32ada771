// What is expected to the right of now: waiting jobs at the starts that the daemon predicts, running jobs until their expected ends.
// The daemon says when a job starts and not on which GPUs; the GPUs here are those that are free first among those it may have.

import type { EarlierPredictions, Gpu, Job, Prediction, TimelineBar, TimelineGpu } from "../api/contract";
import { RUNS } from "../api/contract";
import { duration } from "./format";

export interface Plan {
  job: number;
  name: string | null;
  user: string;
  gpus: string[];
  start: number;
  finish: number;
  /** `waits` for a job to come, `runs` for the rest of one that is there. */
  kind: "waits" | "runs";
  /** Whether the end is expected, or only not known. */
  isEndKnown: boolean;
}

const EXPECTED_MAX = 200;
/** How long a job of unknown length is drawn, as a part of the time until it starts. */
const UNKNOWN_PART = 0.25;
const UNKNOWN_MIN_MS = 20_000;

const ms = (iso: string | null | undefined) => (iso ? Date.parse(iso) : Number.NaN);

/** The rest of the running jobs that said how long they would take. */
export function restOf(bars: readonly TimelineBar[], jobs: readonly Job[], now: number): Plan[] {
  const known = new Map(jobs.filter((job) => RUNS.includes(job.state)).map((job) => [job.id, job]));
  const plans: Plan[] = [];
  for (const bar of bars) {
    const job = known.get(bar.job);
    if (bar.finish !== null || !job?.estimate_seconds) continue;
    const finish = Date.parse(bar.start) + job.estimate_seconds * 1000;
    if (finish > now) {
      plans.push({
        job: bar.job,
        name: bar.name,
        user: bar.user,
        gpus: bar.gpus,
        start: now,
        finish,
        kind: "runs",
        isEndKnown: true,
      });
    }
  }
  return plans;
}

/** How the starts that were predicted earlier turned out, in words. */
export function turnedOut(earlier: EarlierPredictions): string {
  const inside = Math.round(100 * earlier.coverage_p10_p90);
  const jobs = `Of the last ${earlier.jobs} jobs whose start was predicted, ${inside} % started between two such times`;
  return `${jobs}, and half of them within ${duration(earlier.error_median_s)} of the expected one.`;
}

/** GPUs that get no jobs as they are now. */
const CLOSED: readonly Gpu["state"][] = ["drained", "lost", "stranger"];

/** Of the GPUs on the timeline, those that can get jobs; all of them while nothing is known of the machine. */
export function openGpus(gpus: readonly TimelineGpu[], machine: readonly Gpu[] | undefined): readonly TimelineGpu[] {
  if (!machine) return gpus;
  const open = new Set(machine.filter((gpu) => !CLOSED.includes(gpu.state)).map((gpu) => gpu.uuid));
  return gpus.filter((gpu) => open.has(gpu.uuid));
}

/** Whether a job may have a GPU. A part of a GPU is for jobs that need no other GPU. */
function mayHave(job: Job, gpu: TimelineGpu): boolean {
  if (job.gpu_ids?.length && !job.gpu_ids.includes(gpu.index)) return false;
  if (job.gpus_requested > 1 && gpu.type.includes("-mig-")) return false;
  return job.gpu_types.length === 0 || job.gpu_types.includes(gpu.type);
}

/** The GPUs for a job that are free first: of one type, unless the job may span types and has to wait longer for those of one. */
function freeFirst(job: Job, gpus: readonly TimelineGpu[], freeAt: ReadonlyMap<string, number>, start: number) {
  const freeOf = (gpu: TimelineGpu) => freeAt.get(gpu.uuid) ?? 0;
  const usable = gpus.filter((gpu) => mayHave(job, gpu)).sort((a, b) => freeOf(a) - freeOf(b) || a.index - b.index);
  const choices = [...new Set(usable.map((gpu) => gpu.type))].map((type) => usable.filter((gpu) => gpu.type === type));
  // A job that names its GPUs means these, whatever their types.
  if (job.any_type || job.gpu_ids?.length) choices.push(usable);
  const readyAt = (chosen: readonly TimelineGpu[]) => Math.max(start, ...chosen.map(freeOf));
  return choices
    .filter((choice) => choice.length >= job.gpus_requested)
    .map((choice) => choice.slice(0, job.gpus_requested))
    .sort((a, b) => readyAt(a) - readyAt(b))
    .at(0);
}

/** Waiting jobs, each on the GPUs that are free first. `gpus` are those that can get jobs. */
export function waitingPlans(
  gpus: readonly TimelineGpu[],
  jobs: readonly Job[],
  predictions: readonly Prediction[],
  rest: readonly Plan[],
  now: number,
): Plan[] {
  const waiting = new Map(jobs.filter((job) => job.state === "waiting").map((job) => [job.id, job]));
  const freeAt = new Map(gpus.map((gpu) => [gpu.uuid, now]));
  for (const plan of rest) for (const uuid of plan.gpus) freeAt.set(uuid, Math.max(freeAt.get(uuid) ?? now, plan.finish));
  const plans: Plan[] = [];
  for (const said of predictions.slice(0, EXPECTED_MAX)) {
    const job = waiting.get(said.id);
    const start = Math.max(now, ms(said.start_p50));
    if (!job || Number.isNaN(start) || job.gpus_requested === 0) continue;
    const end = ms(said.end_p50);
    const finish = end > start ? end : start + Math.max(UNKNOWN_MIN_MS, (start - now) * UNKNOWN_PART);
    const usable = freeFirst(job, gpus, freeAt, start);
    if (!usable) continue;
    for (const gpu of usable) freeAt.set(gpu.uuid, Math.max(freeAt.get(gpu.uuid) ?? 0, finish));
    // The daemon knows better than an estimate when a GPU is free: what was there before ends when a job takes all of it.
    if (!job.share) endBefore([...rest, ...plans], usable, start);
    plans.push({
      job: job.id,
      name: job.name ?? null,
      user: job.user,
      gpus: usable.map((gpu) => gpu.uuid),
      start,
      finish,
      kind: "waits",
      isEndKnown: end > start,
    });
  }
  return plans;
}

function endBefore(plans: readonly Plan[], gpus: readonly TimelineGpu[], start: number): void {
  for (const plan of plans) {
    const isThere = plan.finish > start && plan.start < start && plan.gpus.some((uuid) => gpus.some((gpu) => gpu.uuid === uuid));
    if (isThere) plan.finish = start;
  }
}

export interface PlanLane {
  plans: Plan[];
}

/** For each GPU its plans, in lanes in which none overlaps another. */
export function plansByGpu(plans: readonly Plan[]): Map<string, PlanLane[]> {
  const rows = new Map<string, PlanLane[]>();
  for (const plan of [...plans].sort((a, b) => a.start - b.start || a.job - b.job)) {
    for (const uuid of plan.gpus) {
      const lanes = rows.get(uuid) ?? [];
      rows.set(uuid, lanes);
      const free = lanes.find((lane) => (lane.plans.at(-1)?.finish ?? 0) <= plan.start);
      if (free) free.plans.push(plan);
      else lanes.push({ plans: [plan] });
    }
  }
  return rows;
}
