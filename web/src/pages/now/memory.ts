// Whose a GPU's memory is: by job, and everything that is no job's.

import type { Gpu } from "../../api/contract";

export interface Part {
  key: string;
  /** Null for a stranger. */
  job: number | null;
  label: string;
  user: string | null;
  mib: number;
  /** The job is there, but how much it holds is not known. */
  isGuess: boolean;
}

export function partsOf(gpu: Gpu): Part[] {
  const parts = new Map<string, Part>();
  for (const process of gpu.processes) {
    const job = process.job ?? null;
    const key = job === null ? `pid ${process.pid}` : `job ${job}`;
    const label = job === null ? `${process.name ?? "process"} (pid ${process.pid})` : key;
    const part = parts.get(key) ?? { key, job, label, user: process.user ?? null, mib: 0, isGuess: true };
    if (process.memory_mib !== null && process.memory_mib !== undefined) {
      part.mib += process.memory_mib;
      part.isGuess = false;
    }
    parts.set(key, part);
  }
  for (const job of gpu.jobs) {
    const key = `job ${job}`;
    if (!parts.has(key)) parts.set(key, { key, job, label: key, user: null, mib: 0, isGuess: true });
  }
  return [...parts.values()].sort((a, b) => Number(a.job === null) - Number(b.job === null) || (a.job ?? 0) - (b.job ?? 0));
}
