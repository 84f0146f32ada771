import { expect, test } from "vitest";
import type { Gpu, Job, Prediction, TimelineGpu } from "../src/api/contract";
import { found } from "../src/logic/commands";
import { openGpus, plansByGpu, restOf, turnedOut, waitingPlans } from "../src/logic/planned";
import { relativeTicks, shortSpan } from "../src/logic/ticks";
import { fittedTo } from "../src/logic/view";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();
const gpus: TimelineGpu[] = ["a100", "a100", "t4"].map((type, index) => ({ uuid: `g${index}`, index, name: type, type }));
const job = (id: number, more: Partial<Job>): Job =>
  ({ id, name: `job-${id}`, user: "ann", state: "waiting", gpu_types: [], gpus_requested: 1, ...more }) as Job;
const said = (id: number, start: number | null, end: number | null): Prediction =>
  ({
    id,
    position: 1,
    start_p50: start === null ? null : at(start),
    end_p50: end === null ? null : at(end),
    depends_on: [],
  }) as never;

test("running jobs go on until their expected end, and waiting jobs follow on the GPUs that are free first", () => {
  const jobs = [
    job(1, { state: "running", estimate_seconds: 100 }),
    job(2, { gpu_types: ["a100"] }),
    job(3, { gpu_types: ["a100"], gpus_requested: 2 }),
    job(4, { gpu_types: ["v100"] }),
    job(5, {}),
  ];
  const bars = [{ job: 1, name: "job-1", user: "ann", state: "running", end: null, gpus: ["g0"], start: at(-40), finish: null }];
  const rest = restOf(bars as never, jobs, NOW);
  expect(rest).toMatchObject([{ job: 1, gpus: ["g0"], finish: NOW + 60_000, kind: "runs" }]);
  const plans = waitingPlans(gpus, jobs, [said(2, 5, 50), said(3, 60, 90), said(4, 1, 2), said(5, null, null)], rest, NOW);
  expect(plans).toMatchObject([
    { job: 2, gpus: ["g1"], start: NOW + 5_000, finish: NOW + 50_000, isEndKnown: true },
    { job: 3, gpus: ["g1", "g0"], start: NOW + 60_000 },
  ]);
  const lanes = plansByGpu([...rest, ...plans]);
  for (const row of lanes.values()) {
    for (const lane of row) {
      for (const [place, plan] of lane.plans.entries()) {
        expect(plan.start).toBeGreaterThanOrEqual(lane.plans[place - 1]?.finish ?? 0);
      }
    }
  }
});

/** Four GPUs of two types, and when the first two fall free. */
const mixed: TimelineGpu[] = ["a100", "a100", "t4", "t4"].map((type, index) => ({ uuid: `g${index}`, index, name: type, type }));
const busy = (seconds: number[]) =>
  seconds.map((finish, index) => ({ job: 90 + index, gpus: [`g${index}`], start: NOW, finish: NOW + 1000 * finish }) as never);
const placed = (more: Partial<Job>, seconds: number[], start = 5) =>
  waitingPlans(mixed, [job(1, more)], [said(1, start, start + 60)], busy(seconds), NOW).map((plan) => plan.gpus);

test("a gang is drawn on GPUs of one type, unless it may span types", () => {
  const gang = { gpus_requested: 2 };
  expect(placed(gang, [0, 50, 10, 60])).toEqual([["g0", "g1"]]);
  expect(placed({ ...gang, any_type: true }, [0, 50, 10, 60])).toEqual([["g0", "g2"]]);
  // One type is preferred where its GPUs are free in time.
  expect(placed({ ...gang, any_type: true }, [0, 50, 10, 60], 55)).toEqual([["g0", "g1"]]);
  expect(placed({ gpus_requested: 3 }, [])).toEqual([]);
  expect(placed({ gpus_requested: 3, any_type: true }, [])).toEqual([["g0", "g1", "g2"]]);
});

test("a job that names its GPUs is drawn on these", () => {
  expect(placed({ gpu_ids: [3] }, [])).toEqual([["g3"]]);
  expect(placed({ gpu_ids: [1, 2], gpus_requested: 2 }, [])).toEqual([["g1", "g2"]]);
  expect(placed({ gpu_ids: [0, 1], gpu_types: ["t4"] }, [])).toEqual([]);
});

test("a gang is not drawn on parts of GPUs", () => {
  const parts = mixed.map((gpu, index) => ({ ...gpu, type: index < 2 ? "a100-mig-1g.10gb" : "a100" }));
  const plans = waitingPlans(parts, [job(1, {}), job(2, { gpus_requested: 2 })], [said(1, 1, 9), said(2, 1, 9)], [], NOW);
  expect(plans.map((plan) => plan.gpus)).toEqual([["g0"], ["g2", "g3"]]);
});

test("nothing is drawn on GPUs that get no jobs", () => {
  const states: Gpu["state"][] = ["drained", "lost", "full"];
  const machine = states.map((state, index) => ({ uuid: `g${index}`, state }) as Gpu);
  // The last GPU of the timeline is not in the machine any more.
  expect(openGpus(mixed, machine).map((gpu) => gpu.uuid)).toEqual(["g2"]);
  expect(openGpus(mixed, [{ uuid: "g1", state: "stranger" } as Gpu, { uuid: "g0", state: "shared" } as Gpu])).toEqual([mixed[0]]);
  expect(openGpus(mixed, undefined)).toEqual(mixed);
});

test("a young queue fills the chart, an old one keeps its span", () => {
  const fitted = fittedTo(NOW - 120_000, NOW, 3_600_000, NOW);
  expect(fitted?.from).toBeLessThan(NOW - 120_000);
  expect((fitted?.to ?? 0) - (fitted?.from ?? 0)).toBeLessThan(300_000);
  expect(fittedTo(NOW - 3_000_000, NOW, 3_600_000, NOW)).toBeNull();
});

test("marks of a simulation count from zero", () => {
  expect(
    relativeTicks(0, 3_600_000, 800)
      .map((tick) => tick.label)
      .slice(0, 3),
  ).toEqual(["0", "10 min", "20 min"]);
  expect([45, 90, 5_400, 7_200, 259_200].map(shortSpan)).toEqual(["45 s", "90 s", "1 h 30", "2 h", "3 d"]);
});

test("commands are found by every word, beginnings first", () => {
  const command = (title: string, kind = "job") => ({ key: title, title, kind, run: () => undefined });
  const all = [command("cancel bert (7)", "action"), command("Timeline", "page"), command("bert (7)"), command("albert (8)")];
  expect(found(all, "ber").map((one) => one.title)).toEqual(["bert (7)", "cancel bert (7)", "albert (8)"]);
  expect(found(all, "cancel 7").map((one) => one.title)).toEqual(["cancel bert (7)"]);
  expect(found(all, "xyz")).toEqual([]);
  expect(found(all, "").length).toBe(4);
});

test("how earlier predictions turned out is said in words", () => {
  expect(turnedOut({ jobs: 57, coverage_p10_p90: 0.807, error_median_s: 240 })).toBe(
    "Of the last 57 jobs whose start was predicted, 81 % started between two such times, and half of them within 4 min 00 s of the expected one.",
  );
});
