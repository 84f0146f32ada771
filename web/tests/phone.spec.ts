import { expect, test } from "@playwright/test";
import { daemonForFile } from "./daemon";

const daemon = daemonForFile();

test.use({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });

test("every page fits a phone", async ({ page }) => {
  const id = await daemon.submit(
    "a-job-with-a-rather-long-name-that-does-not-fit-a-phone",
    "echo hello; sleep 600",
    "-g",
    "1",
    "--estimate",
    "20m",
  );
  await daemon.submit("waits", "sleep 600", "-g", "2", "--gpu-type", "a100");
  await daemon.signIn(page);
  for (const hash of ["#/now", "#/timeline", `#/job/${id}`, "#/history", "#/simulate"]) {
    await page.goto(`${daemon.url}/${hash}`);
    await expect(page.locator("main h1")).toHaveCount(1);
    await expect(page.locator("[aria-busy]")).toHaveCount(0);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), hash).toBeLessThanOrEqual(360);
  }
  await page.goto(`${daemon.url}/#/now`);
  await page.getByRole("button", { name: `cancel job ${id}` }).tap();
  await page.getByRole("dialog").getByRole("button", { name: "back" }).tap();
  await page.getByRole("navigation").getByRole("link", { name: "History" }).tap();
  await expect(page.getByRole("heading", { level: 1, name: "History" })).toBeVisible();
});

test("light and dark follow the system until somebody chooses", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await daemon.signIn(page);
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.getByRole("button", { name: "light theme" }).tap();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
  expect(await page.evaluate(() => ({ ...localStorage }))).toEqual({ "rota-theme": "light" });
});
