import { expect, test } from "vitest";
import type { Job } from "../src/api/contract";
import { folded, groupName, matches, sorted, withoutStart } from "../src/logic/queue";

const job = (id: number, more: Partial<Job> = {}): Job =>
  ({
    id,
    name: `job-${id}`,
    user: "ann",
    state: "waiting",
    gpu_types: [],
    gpus_requested: 1,
    priority: 0,
    submitted_at: `2026-01-01T00:00:${String(id).padStart(2, "0")}Z`,
    ...more,
  }) as Job;

test("jobs are found by any of their words, and by all of them", () => {
  const one = job(7, { name: "bert", user: "bob", params: { lr: "0.1" }, gpu_types: ["a100"] });
  for (const words of ["", "bert", "BERT bob", "7", "lr=0.1", "waiting a100"]) expect(matches(one, words), words).toBe(true);
  for (const words of ["gpt", "bert ann", "running"]) expect(matches(one, words), words).toBe(false);
});

test("jobs are sorted, and keep the order of the queue where they are alike", () => {
  const list = [job(1, { priority: 1 }), job(2, { gpus_requested: 4 }), job(3, { priority: 1, name: "a" })];
  const ids = (order: Parameters<typeof sorted>[1]) => sorted(list, order, Date.parse("2026-01-01T01:00:00Z")).map((one) => one.id);
  expect(ids("queue")).toEqual([1, 2, 3]);
  expect(ids("newest")).toEqual([3, 2, 1]);
  expect(ids("priority")).toEqual([1, 3, 2]);
  expect(ids("gpus")).toEqual([2, 1, 3]);
  expect(ids("name")).toEqual([3, 1, 2]);
  expect(ids("longest")).toEqual([1, 2, 3]);
});

test("a group is one row in the place of its first job", () => {
  const rows = folded([job(1), job(2, { group: 2 }), job(3), job(4, { group: 2 }), job(5, { group: 5 })]);
  expect(rows.map((row) => [row.key, row.jobs.length])).toEqual([
    ["job 1", 1],
    ["group 2", 2],
    ["job 3", 1],
    ["group 5", 1],
  ]);
  expect(groupName(job(2, { group: 2, name: "bert[lr=0.1,seed=2]" }))).toBe("bert");
  expect(groupName(job(2, { group: 2, name: null }))).toBe("group 2");
});

test("a reason is shown without the start that stands below it", () => {
  expect(withoutStart("needs 4 GPUs; 0 of 4 free; starts about 2026-11-17T17:43:16Z")).toBe("needs 4 GPUs; 0 of 4 free");
  expect(withoutStart("needs 1 GPU; 0 of 2 free; starts about 2026-11-17T17:43:16Z; Slurm says so")).toBe(
    "needs 1 GPU; 0 of 2 free; Slurm says so",
  );
});
