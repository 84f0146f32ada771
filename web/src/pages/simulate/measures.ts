// What policies are compared by, which way is better, and the comparison in one sentence.

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
    meaning: "the worst job's time over its time with an equal share of the GPUs; times below 10 s count as 10 s",
    better: "less",
    of: (summary) => summary.ftf_bounded_worst ?? summary.ftf_worst,
    show: number,
  },
];

/** The place of the one result that is better than all others as they are shown; null where the best two look the same. */
export function bestOf(measure: Measure, results: readonly Summary[]): number | null {
  const sign = measure.better === "less" ? 1 : -1;
  const known = results
    .map((summary, at) => ({ at, value: measure.of(summary) }))
    .filter((one): one is { at: number; value: number } => one.value !== null && Number.isFinite(one.value))
    .sort((a, b) => sign * (a.value - b.value));
  const [first, second] = known;
  if (!first || !second || measure.show(first.value) === measure.show(second.value)) return null;
  return first.at;
}

/** The policies that share the best value, as it is shown. */
function tieOf(measure: Measure, results: readonly Summary[]): string | null {
  const values = results.map((summary) => measure.of(summary)).filter((value): value is number => value !== null);
  if (values.length < 2) return null;
  const best = measure.show(Math.min(...values));
  const names = results.filter((summary) => measure.show(measure.of(summary)) === best).map((summary) => summary.policy);
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)} have the same ${measure.name}: ${best}`;
}

/** The comparison in one line, by the mean time from arrival to end. */
export function verdictOf(results: readonly Summary[]): string | null {
  const [measure] = MEASURES;
  const [base] = results;
  const at = measure ? bestOf(measure, results) : null;
  if (!measure || !base || at === null) return measure && results.length > 1 ? tieOf(measure, results) : null;
  const against = at === 0 ? results.findLast((summary) => summary !== base) : base;
  const [best, other] = [results[at]?.jct_mean_s, against?.jct_mean_s];
  if (!best || !other || !against) return null;
  const part = 100 * (1 - best / other);
  return `${results[at]?.policy}: ${part >= 9.95 ? Math.round(part) : part.toFixed(1)} % lower mean time than ${against.policy}`;
}
