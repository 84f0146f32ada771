import { expect, test } from "@playwright/test";
import { daemonForFile } from "./daemon";

const daemon = daemonForFile();

test("the page says that the daemon is away, and comes back by itself", async ({ page }) => {
  const id = await daemon.submit("survivor", "echo begun; sleep 600", "-g", "1");
  await daemon.signIn(page, `#/job/${id}`);
  await expect(page.getByRole("log")).toContainText("begun");
  await daemon.stop();
  await expect(page.getByText("The daemon does not answer: what you see is old.", { exact: false })).toBeVisible();
  await expect(page.getByText("reconnecting", { exact: true })).toBeVisible();
  // What was known stays in view meanwhile.
  await expect(page.getByRole("log")).toContainText("begun");
  await daemon.start();
  // Nobody is asked for the token again.
  await expect(page.getByText("live", { exact: true })).toBeVisible();
  await expect(page.locator(".job-head .state")).toContainText("running");
  await expect(page.getByRole("log")).toContainText("begun");
  const next = await daemon.submit("after the restart", "sleep 600", "-g", "1");
  await page.keyboard.press("1");
  await expect(page.getByRole("region", { name: "running jobs" }).getByRole("link", { name: "after the restart" })).toBeVisible();
  await page.getByRole("button", { name: `cancel job ${next}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "cancel the job" }).click();
  await expect(page.getByRole("region", { name: "running jobs" })).not.toContainText("after the restart");
});
