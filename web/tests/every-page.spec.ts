import AxeBuilder from "@axe-core/playwright";
import { expect, type Page, test } from "@playwright/test";
import { daemonForFile } from "./daemon";

const daemon = daemonForFile();
let [running, failed, simulation] = [0, 0, ""];

/** A queue with something of everything: running, waiting, failed, held, a group, a simulation. */
test.beforeAll(async () => {
  const trains = "for i in 1 2 3; do echo Epoch $i/10 loss=0.$((9-i)) 12.5 it/s; done; sleep 600";
  running = await daemon.submit("trains", trains, "-g", "2", "--gpu-type", "a100", "--estimate", "10m");
  failed = await daemon.submit(
    "breaks",
    "printf 'Traceback (most recent call last):\\n  File \"a.py\", line 1\\nValueError: the shapes differ\\n'; exit 1",
    "-g",
    "1",
  );
  await daemon.rota("wait", String(failed)).catch(() => "");
  const array = ["--array", "0-5", "-g", "1", "--gpu-type", "a100", "--estimate", "5m"];
  await daemon.submit("sweep", "sleep 300", ...array);
  await daemon.submit("waits", "sleep 60", "-g", "1", "--gpu-type", "a100", "--estimate", "2m");
  await daemon.rota("hold", String(await daemon.submit("held", "sleep 60", "-g", "2", "--gpu-type", "a100")));
  const short = await daemon.submit("short", "true", "-g", "1");
  await daemon.rota("wait", String(short));
});

const PAGES: [string, () => string][] = [
  ["now", () => "#/now"],
  ["timeline", () => "#/timeline"],
  ["running job", () => `#/job/${running}`],
  ["failed job", () => `#/job/${failed}`],
  ["chooser", () => "#/job"],
  ["history", () => "#/history"],
  ["simulate", () => `#/simulate${simulation}`],
];

async function settled(page: Page, hash: string): Promise<void> {
  await page.goto(`${daemon.url}/${hash}`);
  await expect(page.locator("main h1")).toHaveCount(1);
  await expect(page.locator("[aria-busy]")).toHaveCount(0);
}

async function simulateOnce(page: Page): Promise<void> {
  await settled(page, "#/simulate");
  await page.getByRole("button", { name: "run", exact: true }).click();
  await expect(page.getByRole("region", { name: "comparison" })).toBeVisible();
  simulation = `/${new URL(page.url()).hash.split("/").pop()}`;
}

for (const [name, options] of [
  ["light", { viewport: { width: 1280, height: 800 }, colorScheme: "light" as const }],
  ["dark", { viewport: { width: 1280, height: 800 }, colorScheme: "dark" as const }],
  ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light" as const, hasTouch: true, isMobile: true }],
] as const) {
  test.describe(name, () => {
    test.use(options);
    test("no page has a serious finding of accessibility, and none scrolls sideways", async ({ page }) => {
      await daemon.signIn(page);
      if (simulation === "") await simulateOnce(page);
      for (const [title, hash] of PAGES) {
        await settled(page, hash());
        const { violations } = await new AxeBuilder({ page }).analyze();
        const serious = violations.filter((finding) => finding.impact === "serious" || finding.impact === "critical");
        const said = serious.flatMap((finding) =>
          finding.nodes.map((node) => `${finding.id}: ${node.html}: ${node.failureSummary}`),
        );
        expect(said, title).toEqual([]);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(wide, `${title} is wider than the screen`).toBeLessThanOrEqual(0);
      }
    });
  });
}

test("waiting jobs stand beside running jobs above the fold", async ({ page }) => {
  await daemon.signIn(page);
  const [runs, waits] = [
    page.getByRole("region", { name: "running jobs" }).getByRole("link", { name: "trains" }),
    page.getByRole("region", { name: "waiting jobs" }).getByRole("link", { name: "waits" }),
  ];
  const [left, right] = [await runs.boundingBox(), await waits.boundingBox()];
  expect(left && right && left.x + left.width < right.x).toBe(true);
  for (const box of [left, right]) expect((box?.y ?? 9_999) + (box?.height ?? 0)).toBeLessThan(800);
});

test("the queue is searched, sorted, and a group is one row that unfolds and is cancelled", async ({ page }) => {
  await daemon.signIn(page);
  const waiting = page.getByRole("region", { name: "waiting jobs" });
  const group = waiting.getByRole("row").filter({ hasText: "sweep" });
  await expect(group).toHaveCount(1);
  await expect(group).toContainText("6 waiting");
  await group.getByRole("button", { name: "sweep" }).click();
  await expect(page.getByRole("table", { name: /jobs of sweep/ }).getByRole("row")).toHaveCount(7);
  await page.getByRole("searchbox", { name: "search the queue" }).fill("held");
  await expect(waiting.getByRole("link", { name: "held" })).toBeVisible();
  await expect(waiting.getByRole("link", { name: "waits" })).toBeHidden();
  await page.getByRole("searchbox", { name: "search the queue" }).fill("");
  await page.getByLabel("sort").selectOption("newest");
  await expect(waiting.getByRole("link").first()).toHaveText("held");
  await page.getByLabel("one row for a group").uncheck();
  await expect(waiting.getByRole("link", { name: /^sweep/ })).toHaveCount(6);
  await page.getByLabel("one row for a group").check();
  await group.getByRole("button", { name: /hold group/ }).click();
  await expect(page.getByRole("dialog")).toContainText("hold 6 jobs of sweep?");
  await page.getByRole("dialog").getByRole("button", { name: "hold 6 jobs" }).click();
  await expect(group).toContainText("6 held");
  await group.getByRole("button", { name: /release group/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "release 6 jobs" }).click();
  await expect(group).toContainText("6 waiting");
});

test("a failed job says its last words, a training how far it is, and virtual GPUs that they are virtual", async ({ page }) => {
  await daemon.signIn(page, `#/job/${failed}`);
  await expect(page.locator(".ended")).toContainText("ValueError: the shapes differ");
  await page.goto(`${daemon.url}/#/job/${running}`);
  const training = page.getByRole("region", { name: "training progress" });
  await expect(training).toContainText("3 of 10");
  await expect(training).toContainText("0.6");
  await expect(training).toContainText("12.5");
  await expect(page.getByRole("region", { name: "facts" })).toContainText("virtual");
  for (const hash of ["#/now", "#/timeline", "#/history", "#/simulate"]) {
    await settled(page, hash);
    await expect(page.locator(".virtual").first(), hash).toBeVisible();
  }
});

test("the timeline shows what is expected, and fits a young queue", async ({ page }) => {
  await daemon.signIn(page, "#/timeline");
  await expect(page.getByText(/To the right of now: \d+ waiting jobs?/)).toBeVisible();
  await expect(page.getByTestId("span")).not.toContainText("1 h 00 min");
  await page.getByRole("button", { name: "as a table" }).click();
  await expect(page.getByRole("region", { name: "stays in view" })).toContainText("expected start");
});

test("the command palette opens jobs and pages, and asks before it cancels", async ({ page }) => {
  await daemon.signIn(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "command" }).fill("hist");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "History" })).toBeVisible();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "command" }).fill("trains");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`#/job/${running}$`));
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "command" }).fill("cancel trains");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toContainText("Cancel job");
  await page.getByRole("dialog").getByRole("button", { name: "back" }).click();
});

test("a command palette that is opened again at once stays open", async ({ page }) => {
  await daemon.signIn(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "command" }).fill("hist");
  await page.evaluate(async () => {
    const press = (target: EventTarget | null, key: string, ctrlKey: boolean) =>
      target?.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey, bubbles: true, cancelable: true }));
    press(document.activeElement, "Enter", false);
    while (document.querySelector("dialog")) await Promise.resolve();
    press(window, "k", true);
    // The browser has reported that the first palette was closed before this time has passed.
    await new Promise((resolve) => setTimeout(resolve, 100));
  });
  await expect(page.getByRole("combobox", { name: "command" })).toBeVisible();
  await expect(page.getByRole("heading", { level: 1, name: "History" })).toBeVisible();
});

test("a simulation begins with what really happened and with the policy in force, and draws its schedules", async ({ page }) => {
  await daemon.signIn(page);
  await settled(page, "#/simulate");
  const inForce = JSON.parse(await daemon.rota("status", "--json")).policy as string;
  await expect(page.getByText(`${inForce}`).first()).toBeVisible();
  if (simulation === "") await simulateOnce(page);
  else await settled(page, `#/simulate${simulation}`);
  const rows = page.getByRole("region", { name: "comparison" }).locator("tbody tr");
  await expect(rows.first()).toContainText("as it happened");
  await expect(rows.nth(1)).toContainText(inForce.split(":")[0] as string);
  await expect(page.getByRole("region", { name: "Gantt charts" }).locator("canvas")).toHaveCount(await rows.count());
});

test("a phone shows the queue before the GPUs", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await daemon.signIn(page);
  const queue = await page.getByRole("region", { name: "running jobs" }).boundingBox();
  const gpus = await page.getByRole("region", { name: "GPUs" }).boundingBox();
  expect(queue && gpus && queue.y < gpus.y).toBe(true);
});
