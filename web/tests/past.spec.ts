import { expect, test } from "@playwright/test";
import { complaintsOf, daemonForFile } from "./daemon";

const daemon = daemonForFile();

test.beforeAll(async () => {
  const jobs: number[] = [];
  for (const [name, script] of [
    ["apple", "sleep 1"],
    ["banana", "exit 3"],
    ["cherry", "sleep 1"],
  ]) {
    jobs.push(await daemon.submit(name as string, script as string, "-g", "1"));
  }
  for (const id of jobs) await daemon.rota("wait", String(id)).catch(() => "");
});

test("the past is searched, filtered and summed up", async ({ page }) => {
  const complaints = complaintsOf(page);
  await daemon.signIn(page, "#/history?span=3600000");
  await expect(page.getByRole("region", { name: "totals" })).toContainText("GPU-hours");
  await expect(page.getByRole("img", { name: /heat map/ })).toBeVisible();
  const past = page.getByRole("region", { name: "jobs of the past" });
  for (const name of ["apple", "banana", "cherry"]) await expect(past.getByRole("link", { name })).toBeVisible();
  await page.getByRole("searchbox").fill("BAN");
  await expect(past.getByRole("link", { name: "apple" })).toBeHidden();
  await expect(past.getByRole("row").filter({ hasText: "banana" })).toContainText("failed");
  await expect(page).toHaveURL(/q=BAN/);
  await page.getByRole("button", { name: "all", exact: true }).click();
  await page.getByLabel("state", { exact: true }).selectOption("done");
  await expect(past.getByRole("link", { name: "banana" })).toBeHidden();
  await expect(past.getByRole("link", { name: "cherry" })).toBeVisible();
  expect(complaints).toEqual([]);
});

test("a failed job says so, and is tried again", async ({ page }) => {
  await daemon.signIn(page, "#/job/2");
  await expect(page.locator(".job-head .state")).toContainText("failed");
  await expect(page.getByRole("region", { name: "facts" })).toContainText("code 3");
  await page.getByRole("button", { name: "retry job 2" }).click();
  await expect(page.getByText(/job 2 is queued again as job \d+/)).toBeVisible();
  await expect(page).not.toHaveURL(/#\/job\/2$/);
  await expect(page.getByRole("region", { name: "facts" })).toContainText("sh -c 'exit 3'");
});

test("recorded jobs are simulated under several policies", async ({ page }) => {
  const complaints = complaintsOf(page);
  await daemon.signIn(page, "#/simulate");
  await expect(page.getByRole("checkbox", { name: /^fcfs/ })).toBeChecked();
  await page.getByRole("checkbox", { name: /^srtf/ }).check();
  await page.getByRole("button", { name: "run", exact: true }).click();
  const comparison = page.getByRole("region", { name: "comparison" });
  // The headings, what really happened, the policy in force, three that are chosen at first, and one more.
  await expect(comparison.getByRole("row")).toHaveCount(7, { timeout: 60_000 });
  await expect(comparison.getByRole("row").nth(1)).toContainText("as it happened");
  for (const policy of ["as it happened", "priority", "fcfs", "sjf", "las", "srtf"]) {
    await expect(page.getByRole("img", { name: `Gantt chart of the GPUs under ${policy}.` })).toBeVisible();
  }
  // The address is that of the simulation, so it is there after a reload, too.
  await page.reload();
  await expect(comparison.getByRole("row")).toHaveCount(7);
  expect(complaints).toEqual([]);
});

test("a trace that is none is refused in words", async ({ page }) => {
  await daemon.signIn(page, "#/simulate");
  await page.getByRole("radio", { name: "a trace file" }).check();
  await page
    .getByLabel("trace file", { exact: false })
    .and(page.locator("input[type=file]"))
    .setInputFiles({ name: "nonsense.csv", mimeType: "text/csv", buffer: Buffer.from("\u0000 nothing\n") });
  await page.getByRole("button", { name: "run", exact: true }).click();
  await expect(page.locator(".trouble, .toast.problem").first()).toBeVisible();
});
