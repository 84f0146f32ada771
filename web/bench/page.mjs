// How soon the page is there, and whether it grows while it is left open, on a real daemon whose jobs come and go.
//
//   npm run build && cargo build --release -p rota && npm run bench:page -- [minutes]
//
// First paint is the browser's own mark, in a new profile every time. Memory is the heap of the page after a collection, beside its
// nodes and listeners: what is left then is held by something.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "@playwright/test";

const MINUTES = Number(process.argv[2] ?? 60);
const LOADS = 7;
const SAMPLES = 12;
const ROTA = resolve(process.env.ROTA_BINARY ?? "../target/release/rota");

const state = mkdtempSync(join(tmpdir(), "rota-page-"));
const rota = (command, ...args) => execFileSync(ROTA, [command, "--state", state, ...args]).toString();
const daemon = spawn(ROTA, ["up", "--foreground", "--state", state, "--virtual-gpus", "a100:4,t4:4", "--port", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await new Promise((found) => {
  daemon.stdout.on("data", (said) => {
    const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said.toString())?.[0];
    if (address) found(address);
  });
});
const token = readFileSync(join(state, "token"), "utf8").trim();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Signs in a new browser profile. */
async function signedIn() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(url);
  await page.getByLabel("token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "sign in" }).click();
  await page.getByText("live", { exact: true }).waitFor();
  return page;
}

/** Milliseconds until something is painted, and until the GPUs are there. */
async function load(page) {
  await page.goto(url);
  await page.locator(".memory").first().waitFor();
  return page.evaluate(() => ({
    painted: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    ready: performance.now(),
  }));
}

const middle = (list) => [...list].sort((one, other) => one - other)[Math.floor(list.length / 2)];

rota("submit", "--array", "1-200", "--", "sleep", "3");
const loads = [];
for (let run = 0; run < LOADS; run++) {
  const page = await signedIn();
  // A page of the same profile that has nothing of the first one's in memory.
  const next = await page.context().newPage();
  const session = await next.context().newCDPSession(next);
  await session.send("Network.clearBrowserCache");
  loads.push(await load(next));
  await page.context().close();
}
const painted = loads.map((one) => one.painted);
const ready = loads.map((one) => one.ready);
console.log(
  `first paint: ${middle(painted).toFixed(0)} ms, at most ${Math.max(...painted).toFixed(0)} ms in ${LOADS} loads (target 1000)`,
);
console.log(`GPUs shown: ${middle(ready).toFixed(0)} ms, at most ${Math.max(...ready).toFixed(0)} ms`);

const page = await signedIn();
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable");
const began = Date.now();
let submitted = 0;
console.log("minute  heap kB   nodes  listeners  jobs so far");
for (let sample = 0; sample <= SAMPLES && MINUTES > 0; sample++) {
  while (Date.now() < began + (sample * MINUTES * 60_000) / SAMPLES) {
    // About two jobs a second come and go: the queue never runs dry and never grows.
    const waiting = JSON.parse(rota("status", "--json")).waiting;
    if (waiting < 20) {
      rota("submit", "--array", "1-20", "--name", "short", "--", "sh", "-c", "echo $RANDOM; sleep 4");
      submitted += 20;
    }
    await page.waitForTimeout(2_000);
  }
  await session.send("HeapProfiler.collectGarbage");
  const metrics = Object.fromEntries(
    (await session.send("Performance.getMetrics")).metrics.map((metric) => [metric.name, metric.value]),
  );
  const minute = (Date.now() - began) / 60_000;
  console.log(
    `${minute.toFixed(0).padStart(6)} ${(metrics.JSHeapUsedSize / 1024).toFixed(0).padStart(8)} ${String(metrics.Nodes).padStart(7)}` +
      ` ${String(metrics.JSEventListeners).padStart(10)} ${String(submitted).padStart(12)}`,
  );
}
await browser.close();
const left = JSON.parse(rota("queue", "--json")).map((job) => String(job.id));
if (left.length > 0) rota("cancel", ...left);
daemon.kill("SIGTERM");
await new Promise((over) => daemon.on("exit", over));
rmSync(state, { recursive: true, force: true });
