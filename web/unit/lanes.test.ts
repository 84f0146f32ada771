import { describe, expect, test } from "vitest";
import type { TimelineBar } from "../src/api/contract";
import { type Bar, busyPart, cull, hit, type Lane, layOut, type Row } from "../src/logic/lanes";

const gpus = [0, 1].map((index) => ({ uuid: `GPU-${index}`, index, name: "A100", type: "a100" }));
const at = (seconds: number) => new Date(seconds * 1000).toISOString();

function bar(job: number, start: number, finish: number | null, on = ["GPU-0"]): TimelineBar {
  return {
    job,
    name: `job ${job}`,
    user: "ada",
    state: "done",
    end: "finished",
    gpus: on,
    start: at(start),
    finish: finish === null ? null : at(finish),
  };
}

interface Stretch {
  left: number;
  right: number;
  bar: Bar;
  count: number;
}

function drawn(lane: Lane, from: number, to: number, pixels: number, now = to): Stretch[] {
  const stretches: Stretch[] = [];
  cull(lane, from * 1000, to * 1000, now * 1000, pixels / ((to - from) * 1000), (left, right, bar, count) =>
    stretches.push({ left, right, bar, count }),
  );
  return stretches;
}

const first = (rows: Row[]) => rows[0]?.lanes[0] as Lane;

describe("lanes", () => {
  test("jobs that share a GPU lie above each other, others in one lane", () => {
    const rows = layOut(gpus, [bar(2, 5, 15), bar(1, 0, 10), bar(3, 10, 20), bar(4, 0, 5, ["GPU-0", "GPU-1"])]);
    expect(rows[0]?.lanes.map((lane) => lane.bars.map((one) => one.source.job))).toEqual([
      [1, 3],
      [4, 2],
    ]);
    expect(rows[1]?.lanes.map((lane) => lane.bars.map((one) => one.source.job))).toEqual([[4]]);
  });

  test("only what is in view is drawn, cut at its edges", () => {
    const lane = first(layOut(gpus, [bar(1, 0, 10), bar(2, 10, 20), bar(3, 30, 40)]));
    const seen = drawn(lane, 5, 25, 200);
    expect(seen.map((stretch) => [stretch.bar.source.job, stretch.left, stretch.right])).toEqual([
      [1, 0, 50],
      [2, 50, 150],
    ]);
  });

  test("a bar that runs ends now", () => {
    const lane = first(layOut(gpus, [bar(1, 0, null)]));
    expect(drawn(lane, 0, 100, 100, 60)[0]?.right).toBe(60);
  });

  test("bars too narrow to be told apart are one: a frame costs pixels, not bars", () => {
    const many = Array.from({ length: 10_000 }, (_, index) => bar(index, index, index + 1));
    const lane = first(layOut(gpus, many));
    const seen = drawn(lane, 0, 10_000, 500);
    expect(seen.length).toBeLessThanOrEqual(501);
    expect(seen.reduce((sum, stretch) => sum + stretch.count, 0)).toBe(10_000);
    for (const stretch of seen) expect(stretch.right - stretch.left).toBeLessThanOrEqual(1);
  });

  test("close up every bar is its own", () => {
    const lane = first(
      layOut(
        gpus,
        Array.from({ length: 10_000 }, (_, index) => bar(index, index, index + 1)),
      ),
    );
    const seen = drawn(lane, 5_000, 5_010, 1_000);
    expect(seen.map((stretch) => stretch.bar.source.job)).toEqual([
      5000, 5001, 5002, 5003, 5004, 5005, 5006, 5007, 5008, 5009, 5010,
    ]);
  });

  test("what is under the pointer, narrow bars within reach", () => {
    const lane = first(layOut(gpus, [bar(1, 0, 10), bar(2, 50, 51)]));
    expect(hit(lane, 5_000, 100, 1e9)?.source.job).toBe(1);
    expect(hit(lane, 53_000, 3_000, 1e9)?.source.job).toBe(2);
    expect(hit(lane, 30_000, 3_000, 1e9)).toBeNull();
  });

  test("shared time counts once", () => {
    const row = layOut(gpus, [bar(1, 0, 10), bar(2, 5, 15), bar(3, 20, null)])[0] as Row;
    expect(busyPart(row, 0, 30_000)).toBeCloseTo(25 / 30);
  });
});
