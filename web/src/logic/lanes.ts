// Bars of a Gantt chart, laid out once and culled at every frame. Jobs that share a GPU lie in lanes above each other; in a lane bars
// are in order and do not overlap, so what is in view is found by bisection, and bars narrower than a pixel are drawn as one: a
// frame costs what is seen, not what is known.

import type { TimelineBar, TimelineGpu } from "../api/contract";

export interface Bar {
  source: TimelineBar;
  start: number;
  /** Infinity while it runs. */
  finish: number;
}

export interface Lane {
  bars: Bar[];
}

export interface Row {
  gpu: TimelineGpu;
  lanes: Lane[];
}

/** Draws a stretch: one bar, or as many as `count` says that are too narrow to be told apart, of which `bar` is the first. */
export type Draw = (left: number, right: number, bar: Bar, count: number) => void;

export function layOut(gpus: readonly TimelineGpu[], bars: readonly TimelineBar[]): Row[] {
  const rows = new Map(gpus.map((gpu) => [gpu.uuid, { gpu, lanes: [{ bars: [] }] as Lane[] }]));
  const sorted = bars.map((source) => ({
    source,
    start: Date.parse(source.start),
    finish: source.finish === null ? Number.POSITIVE_INFINITY : Date.parse(source.finish),
  }));
  sorted.sort((a, b) => a.start - b.start || a.source.job - b.source.job);
  for (const bar of sorted) {
    for (const uuid of bar.source.gpus) {
      const row = rows.get(uuid);
      if (row) laneFor(row.lanes, bar.start).bars.push(bar);
    }
  }
  return [...rows.values()].sort((a, b) => a.gpu.index - b.gpu.index);
}

function laneFor(lanes: Lane[], start: number): Lane {
  for (const lane of lanes) {
    const last = lane.bars[lane.bars.length - 1];
    if (!last || last.finish <= start) return lane;
  }
  const lane = { bars: [] };
  lanes.push(lane);
  return lane;
}

/** The first bar that ends after a moment. */
export function firstEndingAfter(lane: Lane, moment: number): number {
  let [low, high] = [0, lane.bars.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lane.bars[middle] as Bar).finish > moment) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** What of a lane is to be drawn between two moments, in pixels from `from`. */
export function cull(lane: Lane, from: number, to: number, now: number, pixelsPerMs: number, draw: Draw): void {
  let at = firstEndingAfter(lane, from);
  while (at < lane.bars.length) {
    const bar = lane.bars[at] as Bar;
    if (bar.start > to) return;
    const left = (Math.max(bar.start, from) - from) * pixelsPerMs;
    const right = (Math.min(bar.finish, now, to) - from) * pixelsPerMs;
    if (right - left >= 1) {
      draw(left, right, bar, 1);
      at += 1;
      continue;
    }
    // Everything that ends within this pixel is one stretch; the next bar to look at is found by bisection.
    const edge = Math.floor(left) + 1;
    const next = Math.max(at + 1, firstEndingAfter(lane, from + edge / pixelsPerMs));
    draw(Math.floor(left), edge, bar, next - at);
    at = next;
  }
}

/** How much of a stretch of time a GPU was given to anybody, from 0 to 1. */
export function busyPart(row: Row, from: number, to: number): number {
  const stays = row.lanes.flatMap((lane) => lane.bars).sort((a, b) => a.start - b.start);
  let [sum, reached] = [0, from];
  for (const bar of stays) {
    const [start, finish] = [Math.max(bar.start, reached), Math.min(bar.finish, to)];
    if (finish > start) sum += finish - start;
    reached = Math.max(reached, finish);
  }
  return to > from ? sum / (to - from) : 0;
}

/** The bar of a lane at a moment, or the nearest within some milliseconds: narrow bars can be hit, too. */
export function hit(lane: Lane, moment: number, within: number, now: number): Bar | null {
  let best: Bar | null = null;
  let distance = within;
  for (let at = firstEndingAfter(lane, moment - within); at < lane.bars.length; at += 1) {
    const bar = lane.bars[at] as Bar;
    if (bar.start > moment + within) break;
    const finish = Math.min(bar.finish, Math.max(now, bar.start));
    const away = Math.max(bar.start - moment, moment - finish, 0);
    if (away <= distance) {
      best = bar;
      distance = away;
      if (away === 0) break;
    }
  }
  return best;
}
