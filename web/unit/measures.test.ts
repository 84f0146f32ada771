import { expect, test } from "vitest";
import type { Summary } from "../src/api/contract";
import { verdictOf } from "../src/pages/simulate/measures";

const of = (policy: string, jct_mean_s: number) => ({ policy, jct_mean_s }) as Summary;

test("a comparison is one sentence, and a tie names all who share it", () => {
  expect(verdictOf([of("as it happened", 44), of("fcfs", 40), of("srtf", 33)])).toBe(
    "srtf: 25 % lower mean time than as it happened",
  );
  expect(verdictOf([of("as it happened", 44), of("fcfs", 31), of("sjf", 31.2), of("las", 31)])).toBe(
    "fcfs, sjf and las have the same mean time: 31 s",
  );
  expect(verdictOf([of("fcfs", 31)])).toBeNull();
});
