import { expect, test } from "@playwright/test";
import { complaintsOf, daemonForFile } from "./daemon";

const daemon = daemonForFile();

const NAME = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
const RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u202eoverride";

test("hostile names and logs are text and nothing else", async ({ page }) => {
  const complaints = complaintsOf(page);
  const script = [
    `echo '<script>window.pwned=1</script><b>bold</b>'`,
    `printf '\\033[31mred\\033[0m \\033]0;title\\007\\033[2Jafter\\n'`,
    `head -c 1000000 /dev/zero | tr '\\0' x; echo`,
    `echo '${RIGHT_TO_LEFT}'`,
    "echo last",
    "sleep 600",
  ].join("; ");
  const id = await daemon.submit(NAME, script, "-g", "1");
  await daemon.signIn(page);
  await expect(page.getByRole("region", { name: "running jobs" }).getByText(NAME)).toBeVisible();

  await page.goto(`${daemon.url}/#/job/${id}`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(NAME);
  const log = page.getByRole("log");
  await expect(log).toContainText("<script>window.pwned=1</script><b>bold</b>");
  await expect(log.locator(".ink-1")).toHaveText("red");
  const coloured = log.locator(".line").filter({ hasText: "red" });
  await expect(coloured).toHaveText("red after");

  const long = log.locator(".line").filter({ hasText: "xxxx" });
  await expect(long).toHaveCount(1);
  const shown = () => long.evaluate((line) => (line.textContent ?? "").length);
  expect(await shown()).toBeLessThan(5_000);
  await long.getByRole("button", { name: /show more \(996,000 characters/ }).click();
  await expect.poll(shown).toBeGreaterThan(60_000);
  await expect(long.getByRole("button", { name: /show more/ })).toHaveCount(1);

  const islands = log.locator(".line").filter({ hasText: "override" });
  expect(await islands.evaluate((line) => [getComputedStyle(line).direction, getComputedStyle(line).unicodeBidi])).toEqual([
    "rtl",
    "isolate",
  ]);
  const after = log.locator(".line").filter({ hasText: "last" });
  expect(await after.evaluate((line) => getComputedStyle(line).direction)).toBe("ltr");

  expect(await page.evaluate(() => (window as { pwned?: number }).pwned)).toBeUndefined();
  expect(await page.locator("main script, main img, .log-box b").count()).toBe(0);
  expect(complaints).toEqual([]);
});

test("hostile addresses and searches are text, too", async ({ page }) => {
  await daemon.signIn(page, `#/job/${encodeURIComponent("<img src=x onerror=window.pwned=1>")}`);
  await expect(page.getByText("is not the number of a job")).toBeVisible();
  await page.goto(`${daemon.url}/#/history?q=${encodeURIComponent("<script>1</script>")}`);
  await expect(page.getByRole("searchbox")).toHaveValue("<script>1</script>");
  expect(await page.evaluate(() => (window as { pwned?: number }).pwned)).toBeUndefined();
});

test("the page may run nothing but its own files", async ({ page }) => {
  const answer = await page.goto(daemon.url);
  const policy = answer?.headers()["content-security-policy"] ?? "";
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"])
    expect(policy).toContain(rule);
  expect(policy).not.toContain("unsafe");
});
