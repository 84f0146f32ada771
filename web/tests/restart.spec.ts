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
  const live = page.getByText("live", { exact: true });
  const form = page.getByRole("heading", { name: "Sign in" });
  await expect(live.or(form)).toBeVisible();
  // A daemon that keeps its sessions in memory asks who is there; the page then goes on where it was.
  if (await form.isVisible()) {
    await expect(page.getByText("Your session is over", { exact: false })).toBeVisible();
    await daemon.giveToken(page);
  }
  await expect(page.locator(".job-head .state")).toContainText("running");
  await expect(page.getByRole("log")).toContainText("begun");
  const next = await daemon.submit("after the restart", "sleep 600", "-g", "1");
  await page.keyboard.press("1");
  await expect(page.getByRole("region", { name: "running jobs" }).getByRole("link", { name: "after the restart" })).toBeVisible();
  await page.getByRole("button", { name: `cancel job ${next}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "cancel the job" }).click();
  await expect(page.getByRole("region", { name: "running jobs" })).not.toContainText("after the restart");
});
