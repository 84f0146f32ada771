// The shapes the page speaks of: those of the daemon's own description, and names for them.

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Gpu = Schemas["Gpu"];
export type JobState = Schemas["State"];
export type Status = Schemas["Status"];
export type Explanation = Schemas["Explanation"];
export type Counterfactual = Schemas["Counterfactual"];
export type LiveEvent = Schemas["LiveEvent"];
export type Text = Schemas["Text"];
export type Job = Schemas["Job"];
export type Group = Schemas["Group"];
export type GroupDetail = Schemas["GroupDetail"];
export type Prediction = Schemas["Prediction"];
export type EarlierPredictions = Schemas["EarlierPredictions"];
export type Predictions = Schemas["Predictions"];

export type Scope = "worker" | "read" | "submit" | "admin";

/** Who is signed in. `csrf` goes with every request that changes something. */
export interface Session {
  user: string;
  scope: Scope;
  csrf: string | null;
}

/** One moment of a job: its own memory and use, and the power of its GPUs. */
export interface SamplePoint {
  at: string;
  memory_mib: number | null;
  utilisation_percent: number | null;
  power_watts: number | null;
}

export interface Samples {
  job: number;
  points: SamplePoint[];
}

export interface TimelineGpu {
  uuid: string;
  index: number;
  name: string;
  type: string;
}

/** One stay of a job on GPUs; `finish` is null while it lasts. */
export interface TimelineBar {
  job: number;
  name: string | null;
  user: string;
  state: JobState;
  end: string | null;
  gpus: string[];
  start: string;
  finish: string | null;
}

export interface Timeline {
  from: string;
  to: string;
  gpus: TimelineGpu[];
  bars: TimelineBar[];
  /** There were more: only the latest are here. */
  truncated?: boolean;
}

/** What was used, and what of it for nothing: `idle_gpu_hours` were allocated with utilisation below 5 %. */
export interface Use {
  jobs: number;
  gpu_hours: number;
  energy_kwh: number | null;
  cost_usd: number | null;
  idle_gpu_hours: number | null;
}

/** Null: what has no project. */
export type NamedUse = Use & { name: string | null };

export interface Usage {
  from: string;
  to: string;
  total: Use;
  users: NamedUse[];
  projects: NamedUse[];
  gpus: (Use & { uuid: string; index: number; type: string })[];
  waste: { job: number; name: string | null; user: string; idle_gpu_hours: number }[];
}

export interface HeatmapGpu {
  uuid: string;
  index: number;
  allocated: (number | null)[];
  used: (number | null)[];
  power_watts: (number | null)[];
}

export interface Heatmap {
  from: string;
  to: string;
  bucket_seconds: number;
  gpus: HeatmapGpu[];
}

export interface PolicyInfo {
  name: string;
  aliases: string[];
  summary: string;
  parameters: { name: string; default: string; meaning: string }[];
  preemptive: boolean;
  packs: boolean;
  heterogeneity_aware: boolean;
}

/** What `rota sim --json` says of one policy; what is not measured is null. */
export interface Summary {
  policy: string;
  jobs: number;
  completed: number;
  makespan_s: number | null;
  jct_mean_s: number | null;
  jct_p99_s: number | null;
  wait_mean_s: number | null;
  utilisation: number | null;
  energy_kwh: number | null;
  cost_usd: number | null;
  preemptions: number;
  ftf_worst: number | null;
  ftf_unfair_fraction: number | null;
  ftf_bounded_worst?: number | null;
}

export interface SimulationAsk {
  source: "history" | "trace";
  since?: string;
  text?: string;
  cluster?: string;
  policies: string[];
  seed?: number;
}

export interface Simulation {
  id: number | string;
  state: "running" | "done" | "failed" | "cancelled";
  progress: number | null;
  policies: string[];
  error: string | null;
  results: Summary[];
  /** The same of what really happened, where the jobs are this queue's own. */
  happened?: Summary | null;
}

/** The schedule of one policy; `bars` is null where they are too many. */
export type ScheduleBars = Schemas["ScheduleBars"];

export const WAITS: readonly JobState[] = ["waiting", "held"];
export const RUNS: readonly JobState[] = ["starting", "running", "stopping"];
export const OVER: readonly JobState[] = ["done", "failed", "cancelled", "lost"];

export const isOver = (state: JobState) => OVER.includes(state);
export const runs = (state: JobState) => RUNS.includes(state);
