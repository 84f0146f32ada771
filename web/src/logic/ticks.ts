// The marks of a time axis: at round local times, as close as their labels allow.

import { clockOf, clockSecondsOf, dayOf } from "./format";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const STEPS = [
  SECOND,
  2 * SECOND,
  5 * SECOND,
  10 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
  28 * DAY,
];

export interface Tick {
  at: number;
  label: string;
  /** A new day begins here. */
  isDay: boolean;
}

/** How far local time is ahead of UTC; it changes with the seasons, so it is asked at each mark. */
export type Offset = (at: number) => number;

const localOffset: Offset = (at) => -new Date(at).getTimezoneOffset() * MINUTE;

/** Marks between two moments of an axis that is so many pixels wide. */
export function ticks(from: number, to: number, pixels: number, offset: Offset = localOffset): Tick[] {
  const span = to - from;
  if (!(span > 0) || pixels <= 0) return [];
  const room = (span / pixels) * 84;
  const step = STEPS.find((candidate) => candidate >= room) ?? 28 * DAY;
  const found: Tick[] = [];
  const shift = offset(from);
  for (let local = Math.ceil((from + shift) / step) * step; found.length < 200; local += step) {
    const at = local - offset(local - shift);
    if (at > to) break;
    if (at < from) continue;
    const isDay = (at + offset(at)) % DAY === 0;
    found.push({ at, isDay, label: labelOf(at, step, isDay) });
  }
  return found;
}

function labelOf(at: number, step: number, isDay: boolean): string {
  const date = new Date(at);
  if (isDay || step >= DAY) return dayOf(date);
  return step < MINUTE ? clockSecondsOf(date) : clockOf(date);
}

const RELATIVE_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
];

/** Marks of an axis that begins at 0 and not at a moment of the clock. */
export function relativeTicks(from: number, to: number, pixels: number): Tick[] {
  const room = ((to - from) / 1000 / Math.max(1, pixels)) * 84;
  const step = RELATIVE_STEPS.find((candidate) => candidate >= room) ?? Math.ceil(room / 604_800) * 604_800;
  const found: Tick[] = [];
  for (let at = Math.ceil(from / 1000 / step) * step; at * 1000 <= to && found.length < 200; at += step) {
    found.push({ at: at * 1000, isDay: at === 0, label: shortSpan(at) });
  }
  return found;
}

/** `0`, `45 s`, `10 min`, `1 h 30`, `2 d`. */
export function shortSpan(seconds: number): string {
  if (seconds === 0) return "0";
  if (seconds < 60 || (seconds < 600 && seconds % 60 !== 0)) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) {
    const minutes = Math.round((seconds % 3600) / 60);
    return `${Math.floor(seconds / 3600)} h${minutes ? ` ${String(minutes).padStart(2, "0")}` : ""}`;
  }
  return `${Math.round(seconds / 86_400)} d`;
}
