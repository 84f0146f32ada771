// What the page knows of the daemon, as signals. Only `live/link.ts` writes them; everything is bounded, however long the page is open.

import { signal } from "@preact/signals";
import type { EarlierPredictions, Gpu, Job, Prediction, Status } from "../api/contract";
import { Ring } from "../logic/ring";

export type LinkState = "connecting" | "live" | "reconnecting";

/** Whether events come in. */
export const link = signal<LinkState>("connecting");
/** The machine at a glance, with its GPUs; looked at every two seconds. */
export const status = signal<Status | null>(null);
/** Jobs that wait or run, in order of arrival. */
export const jobs = signal<Job[] | null>(null);
/** Jobs that ended lately, the newest first. */
export const ended = signal<Job[]>([]);
/** When waiting jobs are expected to start, as far as anybody can say. */
export const expected = signal<ReadonlyMap<number, string | null>>(new Map());
/** When waiting jobs are expected to start and to end, in the order of their starts. */
export const predictions = signal<readonly Prediction[]>([]);
/** How the starts that were predicted earlier turned out; null while too few jobs have started. */
export const earlierPredictions = signal<EarlierPredictions | null>(null);
/** Grows with every event, at most a few times a second: whoever shows something else than the above looks again. */
export const changes = signal(0);
/** Grows with every look at the gauges. */
export const looks = signal(0);
/** This moment, to the second, while the page is visible. */
export const now = signal(Date.now());

/** Two minutes of looks. */
const RING_LENGTH = 60;

export interface Gauges {
  utilisation: Ring;
  power: Ring;
}

const rings = new Map<string, Gauges>();

export function gaugesOf(uuid: string): Gauges {
  let gauges = rings.get(uuid);
  if (!gauges) {
    gauges = { utilisation: new Ring(RING_LENGTH), power: new Ring(RING_LENGTH) };
    rings.set(uuid, gauges);
  }
  return gauges;
}

export function recordGauges(gpus: readonly Gpu[]): void {
  for (const gpu of gpus) {
    const gauges = gaugesOf(gpu.uuid);
    gauges.utilisation.push(gpu.utilisation_percent);
    gauges.power.push(gpu.power_watts);
  }
  // A GPU that went away takes its rings along.
  if (rings.size > gpus.length) {
    const there = new Set(gpus.map((gpu) => gpu.uuid));
    for (const uuid of rings.keys()) if (!there.has(uuid)) rings.delete(uuid);
  }
}

export function forgetAll(): void {
  status.value = null;
  jobs.value = null;
  ended.value = [];
  expected.value = new Map();
  predictions.value = [];
  earlierPredictions.value = null;
  rings.clear();
}
