// What policies are compared by, and which way is better.

import type { Summary } from "../../api/contract";
import { duration, number, percent, withUnit } from "../../logic/format";

export interface Measure {
  name: string;
  meaning: string;
  better: "less" | "more";
  of(summary: Summary): number | null;
  show(value: number | null): string;
}

export const MEASURES: Measure[] = [
  {
    name: "mean time",
    meaning: "from arrival to end, on average",
    better: "less",
    of: (summary) => summary.jct_mean_s,
    show: duration,
  },
  {
    name: "99 % within",
    meaning: "from arrival to end, for 99 of 100 jobs",
    better: "less",
    of: (summary) => summary.jct_p99_s,
    show: duration,
  },
  { name: "all done after", meaning: "the makespan", better: "less", of: (summary) => summary.makespan_s, show: duration },
  { name: "GPUs busy", meaning: "utilisation", better: "more", of: (summary) => summary.utilisation, show: percent },
  {
    name: "energy",
    meaning: "of all GPUs",
    better: "less",
    of: (summary) => summary.energy_kwh,
    show: (value) => withUnit(value, "kWh"),
  },
  {
    name: "unfairness",
    meaning: "the worst job's time beside that of an equal share for everybody",
    better: "less",
    of: (summary) => summary.ftf_worst,
    show: number,
  },
];

/** The best value of a measure as it is shown, since nobody sees a difference that is rounded away; null if all are the same. */
export function bestOf(measure: Measure, results: readonly Summary[]): string | null {
  const values = results.map(measure.of).filter((value): value is number => value !== null && Number.isFinite(value));
  const texts = new Set(values.map((value) => measure.show(value)));
  if (texts.size < 2) return null;
  return measure.show(measure.better === "less" ? Math.min(...values) : Math.max(...values));
}
