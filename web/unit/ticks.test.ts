import { describe, expect, test } from "vitest";
import { ticks } from "../src/logic/ticks";
import { pan, SPAN_MAX_MS, SPAN_MIN_MS, spanOf, upToNow, zoom } from "../src/logic/view";

const HOUR = 3_600_000;
const utc = () => 0;

describe("marks of the time axis", () => {
  const start = Date.UTC(2026, 10, 16, 9, 7, 13);

  test("are at round times, and as far apart as their labels need", () => {
    for (const span of [10_000, 60_000, HOUR, 24 * HOUR, 30 * 24 * HOUR]) {
      const found = ticks(start, start + span, 1_000, utc);
      expect(found.length).toBeGreaterThanOrEqual(3);
      expect(found.length).toBeLessThanOrEqual(13);
      const step = (found[1]?.at ?? 0) - (found[0]?.at ?? 0);
      for (const tick of found) expect(tick.at % step).toBe(0);
    }
  });

  test("follow local time, half hours included", () => {
    const found = ticks(start, start + 24 * HOUR, 1_000, () => 5.5 * HOUR);
    expect(found.some((tick) => tick.isDay)).toBe(true);
    for (const tick of found) expect((tick.at + 5.5 * HOUR) % HOUR).toBe(0);
  });

  test("nothing for nothing", () => {
    expect(ticks(start, start, 1_000, utc)).toEqual([]);
    expect(ticks(start, start + HOUR, 0, utc)).toEqual([]);
  });
});

describe("the view", () => {
  const view = { from: 0, to: 100_000 };

  test("zooms round a moment that stays where it is", () => {
    const closer = zoom(view, 0.5, 0.25);
    expect(closer).toEqual({ from: 12_500, to: 62_500 });
    expect(zoom(closer, 2, 0.25)).toEqual(view);
  });

  test("stays between seconds and months", () => {
    expect(spanOf(zoom(view, 1e-9, 0.5))).toBe(SPAN_MIN_MS);
    expect(spanOf(zoom(view, 1e12, 0.5))).toBeCloseTo(SPAN_MAX_MS, -3);
  });

  test("pans, and comes back to the present", () => {
    expect(pan(view, -5)).toEqual({ from: -5, to: 99_995 });
    const home = upToNow(HOUR, 1e9);
    expect(home.from).toBeLessThan(1e9);
    expect(home.to).toBeGreaterThan(1e9);
    expect(spanOf(home)).toBe(HOUR);
  });
});
