import { expect, type Page, test } from "@playwright/test";
import { complaintsOf, daemonForFile } from "./daemon";

const daemon = daemonForFile();

const spanOf = async (page: Page) => (await page.getByTestId("span").textContent()) ?? "";

test("the timeline is zoomed and moved by wheel, drag and keys; a click opens the job", async ({ page }) => {
  const complaints = complaintsOf(page);
  const id = await daemon.submit("on the chart", "sleep 600", "-g", "2", "--gpu-type", "a100");
  await daemon.signIn(page, "#/timeline?span=3600000");
  const chart = page.getByRole("img", { name: /Gantt chart of 4 GPUs, [1-9]/ });
  await expect(chart).toBeVisible();
  await expect.poll(() => spanOf(page)).toContain("1 h 00 min");
  const box = await chart.boundingBox();
  if (!box) throw new Error("the chart has no place");

  await page.mouse.move(box.x + box.width * 0.9, box.y + 60);
  await page.mouse.wheel(0, -600);
  await expect.poll(() => spanOf(page)).toMatch(/· \d+ min/);
  const closer = await spanOf(page);
  await page.mouse.wheel(0, 1200);
  await expect.poll(() => spanOf(page)).not.toBe(closer);

  await page.getByRole("button", { name: "15 min" }).click();
  await chart.focus();
  await page.keyboard.press("+");
  await expect.poll(() => spanOf(page)).toContain("11 min");
  await page.keyboard.press("-");
  await expect.poll(() => spanOf(page)).toContain("15 min");

  const now = page.getByRole("button", { name: "now", exact: true });
  await expect(now).toHaveAttribute("aria-pressed", "true");
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 60, { steps: 6 });
  await page.mouse.up();
  await expect(now).toHaveAttribute("aria-pressed", "false");
  await expect(page).toHaveURL(/from=/);
  await chart.focus();
  await page.keyboard.press("0");
  await expect(now).toHaveAttribute("aria-pressed", "true");

  // The job has just begun: close up it is wide enough to be met a little left of the present.
  for (let press = 0; press < 14; press += 1) await page.keyboard.press("+");
  await page.keyboard.press("0");
  await expect.poll(() => spanOf(page)).toMatch(/· \d+ s/);
  const present = box.x + box.width * 0.94;
  await expect(async () => {
    await page.mouse.move(present, box.y + 49);
    await page.mouse.move(present - 3, box.y + 50);
    await expect(page.locator(".tip")).toContainText("on the chart", { timeout: 500 });
  }).toPass();
  await page.mouse.click(present - 3, box.y + 50);
  await expect(page).toHaveURL(new RegExp(`#/job/${id}$`));
  expect(complaints).toEqual([]);
});

test("the same is there as a table", async ({ page }) => {
  await daemon.submit("in the table", "sleep 600", "-g", "2", "--gpu-type", "t4");
  await daemon.signIn(page, "#/timeline");
  await page.getByRole("button", { name: "as a table" }).click();
  const row = page.getByRole("region", { name: "stays in view" }).getByRole("row").filter({ hasText: "in the table" });
  await expect(row).toContainText("2, 3");
});
