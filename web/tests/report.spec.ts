import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import AxeBuilder from "@axe-core/playwright";
import { expect, type Page, test } from "@playwright/test";
import { complaintsOf } from "./daemon";

const BINARY = resolve(process.env.ROTA_BINARY ?? "../target/debug/rota");
const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "rota-report-"));
test.afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Numbers that look random and are the same every time. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Jobs that share GPUs in all sizes, some of them very short. */
function packedTrace(seed: number): string {
  const random = randomFrom(seed);
  const shares = [0.125, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1];
  const lines = ["id,user,job_type,arrival_s,gpus,duration_s,share"];
  let arrival = 0;
  for (let id = 0; id < 120; id += 1) {
    arrival += Math.floor(random() * 4);
    const share = shares[Math.floor(random() * shares.length)];
    const gpus = share === 1 && random() < 0.3 ? 2 : 1;
    const seconds = random() < 0.2 ? 0.05 + random() : 5 + random() * 90;
    lines.push(`${id},u${id % 3},type-${id % 5},${arrival},${gpus},${seconds.toFixed(3)},${share}`);
  }
  return lines.join("\n");
}

interface Rectangle {
  row: number;
  rowTop: number;
  rowBottom: number;
  job: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

const layoutOf = (page: Page) =>
  page.evaluate(() => (globalThis as unknown as { rotaReport: { layout(): Rectangle[][] } }).rotaReport.layout());
const show = (page: Page, from: number, until: number) =>
  page.evaluate(
    (part) =>
      (globalThis as unknown as { rotaReport: { show(a: number, b: number): void } }).rotaReport.show(
        part[0] as number,
        part[1] as number,
      ),
    [from, until],
  );

/** Two rectangles that share more than a rounding error. */
function overlaps(all: Rectangle[]): string[] {
  const slack = 1e-3;
  const found: string[] = [];
  for (const [at, one] of all.entries()) {
    if (one.y < one.rowTop - slack || one.y + one.height > one.rowBottom + slack)
      found.push(`job ${one.job} leaves row ${one.row}`);
    for (const other of all.slice(at + 1)) {
      const across = Math.min(one.x + one.width, other.x + other.width) - Math.max(one.x, other.x);
      const down = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
      if (across > slack && down > slack) found.push(`jobs ${one.job} and ${other.job} in rows ${one.row} and ${other.row}`);
    }
  }
  return found;
}

async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((finding) => finding.impact === "serious" || finding.impact === "critical");
    expect(serious.flatMap((finding) => finding.nodes.map((node) => `${finding.id}: ${node.html}`))).toEqual([]);
  }
}

async function simulate(name: string, ...args: string[]): Promise<string> {
  const out = join(folder, name);
  await run(BINARY, ["sim", ...args, "--out", out]);
  return `file://${join(out, "report.html")}`;
}

test("no two bars of a packed schedule intersect, however close one looks", async ({ page }) => {
  const complaints = complaintsOf(page);
  for (const seed of [1, 2, 3]) {
    const trace = join(folder, `packed-${seed}.csv`);
    writeFileSync(trace, packedTrace(seed));
    const policy = ["fcfs", "sjf", "las"][seed - 1] as string;
    await page.goto(
      await simulate(`packed-${seed}`, "--trace", trace, "--cluster", "t4:4", "--policy", policy, "--place", "best-fit"),
    );
    await expect(page.locator("#gantts canvas")).toBeVisible();
    for (const [from, until] of [
      [0, 1],
      [0.2, 0.5],
      [0.4, 0.42],
    ] as const) {
      await show(page, from, until);
      const [bars] = await layoutOf(page);
      expect(bars?.length, `seed ${seed}, ${from} to ${until}`).toBeGreaterThan(0);
      expect(overlaps(bars ?? []), `seed ${seed}, ${from} to ${until}`).toEqual([]);
    }
  }
  // The schedule in which a bar once lay over two GPUs.
  const classroom = ["--trace", "../scenarios/classroom.toml", "--cluster", "t4:4", "--policy", "fcfs", "--place", "best-fit"];
  await page.goto(await simulate("classroom", ...classroom));
  const [bars] = await layoutOf(page);
  expect(overlaps(bars ?? [])).toEqual([]);
  expect(complaints).toEqual([]);
});

test("a comparison has a verdict, rows that sort, six strong lines and a legend that looks like them", async ({ page }) => {
  const policies = ["fcfs", "sjf", "srtf", "las", "rr", "priority", "saf", "wfq"];
  const all = policies.flatMap((policy) => ["--policy", policy]);
  await page.goto(await simulate("compared", "--trace", "../scenarios/classroom.toml", "--cluster", "t4:4", ...all));
  await expect(page.locator("#verdict")).toHaveText(/\d+(\.\d)? % lower mean completion time than fcfs/);
  const rows = page.locator("#metrics tbody tr");
  await expect(rows).toHaveCount(policies.length);
  const column = page.locator("#metrics th").filter({ hasText: "mean JCT" });
  await column.getByRole("button").click();
  await expect(column).toHaveAttribute("aria-sort", "ascending");
  const best = (await page.locator("#verdict").textContent())?.split(/[:,]/)[0] as string;
  await expect(rows.first().locator("th")).toHaveText(best);
  await column.getByRole("button").click();
  await expect(rows.last().locator("th")).toHaveText(best);
  const legend = page.locator("section[aria-labelledby=time-title] .legend button");
  await expect(legend).toHaveCount(policies.length);
  await expect(page.locator("section[aria-labelledby=time-title] .legend button[aria-pressed=true]")).toHaveCount(6);
  const looks = await legend
    .locator("path")
    .evaluateAll((paths) => paths.map((path) => `${path.getAttribute("stroke")} ${path.getAttribute("stroke-dasharray")}`));
  expect(new Set(looks).size).toBe(policies.length);
  await legend.last().click();
  await expect(legend.last()).toHaveAttribute("aria-pressed", "true");
  await expectAccessible(page);
});

test("a sweep is one page with labelled axes", async ({ page }) => {
  const out = join(folder, "sweep");
  const sweep = join(folder, "sweep.toml");
  writeFileSync(sweep, 'policies = ["fcfs", "srtf"]\nclusters = ["t4:4"]\nrates = [60, 240]\njobs = [60]\nseeds = [1, 2]\n');
  await run(BINARY, ["sweep", sweep, "--out", out]);
  await page.goto(`file://${join(out, "report.html")}`);
  await expect(
    page
      .locator("svg text")
      .filter({ hasText: /^mean JCT \((s|min|h)\)$/ })
      .first(),
  ).toBeVisible();
  await expect(
    page
      .locator("svg text")
      .filter({ hasText: /^jobs per hour$/ })
      .first(),
  ).toBeVisible();
  await expect(page.locator(".verdict").first()).toHaveText(/mean JCT, 60 jobs\/h: /);
  await expect(page.locator("tbody tr")).toHaveCount(2);
  await page.locator("thead button").last().click();
  await expect(page.locator("thead th").last()).toHaveAttribute("aria-sort", "ascending");
  await expectAccessible(page);
});
