import { expect, test } from "@playwright/test";
import { complaintsOf, daemonForFile } from "./daemon";

const daemon = daemonForFile();

test("a wrong token is refused in words, the right one opens the page, signing out closes it", async ({ page }) => {
  const complaints = complaintsOf(page);
  await page.goto(`${daemon.url}/#/timeline`);
  await page.getByLabel("token", { exact: true }).fill("rota_wrong");
  await page.getByRole("button", { name: "sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("no such token");
  await daemon.giveToken(page);
  // A deep link survives signing in.
  await expect(page.getByRole("heading", { name: "Timeline" })).toBeVisible();
  const kept = await page.evaluate(() => [
    JSON.stringify({ ...localStorage }),
    JSON.stringify({ ...sessionStorage }),
    document.cookie,
  ]);
  expect(kept.join(" ")).not.toContain(daemon.token);
  expect(kept).toEqual(["{}", "{}", ""]);
  await page.getByRole("button", { name: "sign out" }).click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  expect(complaints).toEqual([]);
});

test("a job is seen to start and to finish without a reload", async ({ page }) => {
  await daemon.signIn(page);
  await expect(page.getByRole("article", { name: /GPU 0, a100/ })).toBeVisible();
  const gate = `${daemon.state}/gate`;
  const id = await daemon.submit("watched", `while [ ! -e ${gate} ]; do sleep 0.1; done`, "-g", "1");
  const running = page.getByRole("region", { name: "running jobs" });
  await expect(running.getByRole("link", { name: "watched" })).toBeVisible();
  await expect(page.locator(".gpu-card").getByRole("link", { name: "watched" })).toBeVisible();
  await daemon.submit("opens", `touch ${gate}`, "-g", "0");
  const over = page.getByRole("region", { name: "jobs that just ended" });
  await expect(over.getByRole("row").filter({ hasText: "watched" })).toContainText("done");
  await expect(running.getByRole("link", { name: "watched" })).toBeHidden();
  await over.getByRole("link", { name: "watched" }).click();
  await expect(page).toHaveURL(new RegExp(`#/job/${id}$`));
  await expect(page.getByRole("region", { name: "state history" })).toContainText("started");
});

test("a log is followed while it is written", async ({ page }) => {
  const [first, second] = [`${daemon.state}/first`, `${daemon.state}/second`];
  const wait = (file: string) => `while [ ! -e ${file} ]; do sleep 0.1; done`;
  const id = await daemon.submit(
    "writes",
    `echo one; ${wait(first)}; printf '\\033[32mtwo\\033[0m\\n'; ${wait(second)}; echo three`,
    "-g",
    "1",
  );
  await daemon.signIn(page, `#/job/${id}`);
  const log = page.getByRole("log");
  await expect(log).toContainText("one");
  await expect(log).not.toContainText("two");
  await daemon.submit("goes on", `touch ${first}`, "-g", "0");
  await expect(log.locator(".ink-2")).toHaveText("two");
  await daemon.submit("ends", `touch ${second}`, "-g", "0");
  await expect(log).toContainText("three");
  await expect(page.locator(".job-head .state")).toContainText("done");
});

test("waiting jobs have reasons, and are held, released, given another priority and cancelled", async ({ page }) => {
  const blocker = await daemon.submit("blocker", "sleep 600", "-g", "2", "--gpu-type", "a100", "--estimate", "10m");
  const id = await daemon.submit("patient", "sleep 600", "-g", "2", "--gpu-type", "a100");
  await daemon.signIn(page);
  const row = page.getByRole("region", { name: "waiting jobs" }).getByRole("row").filter({ hasText: "patient" });
  await expect(row).toContainText("needs 2 GPUs");
  await expect(row).toContainText(/in \d+ min/);
  await row.getByRole("button", { name: `hold job ${id}` }).click();
  await expect(row).toContainText("held");
  await row.getByRole("button", { name: `priority job ${id}` }).click();
  await page.getByRole("dialog").getByLabel("priority").fill("7");
  await page.getByRole("dialog").getByRole("button", { name: "set" }).click();
  await expect(row).toContainText("priority 7");
  await row.getByRole("button", { name: `release job ${id}` }).click();
  await expect(row).toContainText("waiting");
  await row.getByRole("button", { name: `cancel job ${id}` }).click();
  await expect(page.getByRole("dialog")).toContainText("leaves the queue");
  await page.keyboard.press("Escape");
  await expect(row).toBeVisible();
  await row.getByRole("button", { name: `cancel job ${id}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "cancel the job" }).click();
  await expect(
    page.getByRole("region", { name: "jobs that just ended" }).getByRole("row").filter({ hasText: "patient" }),
  ).toContainText("cancelled");
  await page.getByRole("button", { name: `cancel job ${blocker}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "cancel the job" }).click();
  await expect(page.getByRole("region", { name: "running jobs" })).not.toContainText("blocker");
});

test("keys open the pages, search and help", async ({ page }) => {
  await daemon.signIn(page);
  for (const [key, title] of [
    ["2", "Timeline"],
    ["4", "History"],
    ["5", "Simulate"],
  ]) {
    await page.keyboard.press(key as string);
    await expect(page.getByRole("heading", { level: 1, name: title as string })).toBeVisible();
  }
  await page.keyboard.press("1");
  await expect(page.getByRole("region", { name: "GPUs" })).toBeVisible();
  await page.keyboard.press("/");
  await expect(page.getByRole("searchbox", { name: "search the queue" })).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "keys" });
  // The focus is on the choice of an order, where a question mark is typed and not obeyed.
  await expect(help).toBeHidden();
  await page.getByRole("button", { name: "keys" }).click();
  await expect(help).toContainText("search: the queue on Now");
  await page.keyboard.press("Escape");
  await expect(help).toBeHidden();
});
