// Makes the pictures of README and docs from real runs: a daemon with virtual GPUs and example jobs, and a simulation.
//
//   npm run pictures                    # with ../target/release/rota; ROTA_BINARY names another one

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { chromium } from "@playwright/test";

const BINARY = resolve(process.env.ROTA_BINARY ?? "../target/release/rota");
const IMAGES = resolve("../docs/images");
const WIDE = { width: 1280, height: 800 };
/** The jobs run for so long before the first picture. */
const WARM_UP_SECONDS = Number(process.env.WARM_UP_SECONDS ?? 75);

const run = promisify(execFile);
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const folder = mkdtempSync(join(tmpdir(), "rota-pictures-"));
const state = join(folder, "state");
const rota = async (command, ...args) =>
  (await run(BINARY, [command, "--state", state, ...args], { cwd: folder, maxBuffer: 64 << 20 })).stdout;
const submit = async (name, script, ...options) =>
  Number((await rota("submit", "--name", name, ...options, "--", "sh", "-c", script)).trim().split("\n")[0]);

/** A training that says how far it is. */
const trains = (seconds) =>
  `i=0; while [ $i -lt ${seconds} ]; do i=$((i+1)); ` +
  `echo "Epoch $((i*10/${seconds}+1))/10 step $((i*8))/$((${seconds}*8)) loss=$(awk "BEGIN{print 0.4+2/(1+$i/12)}") 8.1 it/s"; sleep 1; done`;

async function startDaemon() {
  const args = ["up", "--foreground", "--state", state, "--virtual-gpus", "a100:4,t4:2", "--port", "0"];
  const child = spawn(BINARY, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const url = await new Promise((found, failed) => {
    let said = "";
    const hear = (piece) => {
      said += piece;
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (address) found(address);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", () => failed(new Error(said)));
  });
  return { child, url };
}

async function fillQueue() {
  for (const [at, seconds] of [18, 12, 25, 9].entries())
    await submit(`prepare-${at}`, trains(seconds), "-g", "1", "--estimate", `${seconds}s`);
  await submit("tokenizer", "echo reading; exit 3", "-g", "1", "--gpu-type", "t4");
  const job = await submit("resnet50", trains(600), "-g", "2", "--gpu-type", "a100", "--estimate", "10m");
  await submit("bert-large", trains(150), "-g", "1", "--gpu-type", "a100", "--estimate", "150s");
  const sweep = ["--param", "lr=0.1,0.01,0.001", "--param", "seed=1,2,3", "-g", "1", "--gpu-type", "a100", "--estimate", "30s"];
  await submit("lora", trains(30), ...sweep);
  await submit("diffusion", trains(120), "-g", "4", "--gpu-type", "a100", "--estimate", "2m");
  for (const at of [1, 2, 3]) await submit(`eval-${at}`, trains(45), "-g", "1", "--gpu-type", "t4", "--estimate", "45s");
  return job;
}

async function signedIn(browser, url, options = {}) {
  const page = await (await browser.newContext({ viewport: WIDE, ...options })).newPage();
  await page.goto(`${url}/`);
  await page.getByLabel("token", { exact: true }).fill(readFileSync(join(state, "token"), "utf8").trim());
  await page.getByRole("button", { name: "sign in" }).click();
  await page.getByText("live", { exact: true }).waitFor();
  return page;
}

async function open(page, url, hash) {
  await page.goto(`${url}/${hash}`);
  await page.locator("main h1").waitFor({ state: "attached" });
  await pause(2.5);
}

async function pictures(url, job) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await signedIn(browser, url);
  // The curves of the cards are two minutes long.
  await pause(8);
  await page.screenshot({ path: join(IMAGES, "dashboard-now.png") });
  for (const [name, hash] of [
    ["timeline", "#/timeline"],
    ["job", `#/job/${job}`],
    ["history", "#/history"],
  ]) {
    await open(page, url, hash);
    await page.screenshot({ path: join(IMAGES, `dashboard-${name}.png`) });
  }
  await open(page, url, "#/simulate");
  await page.getByRole("button", { name: "run", exact: true }).click();
  await page.getByRole("region", { name: "comparison" }).waitFor();
  await pause(2);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(IMAGES, "dashboard-simulate.png") });
  // The strip of the README: three pictures of the same size.
  const small = { viewport: { width: 900, height: 620 } };
  const narrow = await signedIn(browser, url, small);
  await open(narrow, url, "#/now");
  await narrow.setViewportSize({ width: 1180, height: 813 });
  await pause(1);
  await narrow.screenshot({ path: join(IMAGES, "strip-now.png") });
  await narrow.setViewportSize(small.viewport);
  await open(narrow, url, "#/timeline");
  await narrow.screenshot({ path: join(IMAGES, "strip-timeline.png") });
  const out = join(folder, "report");
  const policies = ["fcfs", "sjf", "srtf", "las", "rr:quantum=5", "lag-match:tick=5"].flatMap((policy) => ["--policy", policy]);
  const trace = ["--trace", "scenarios/classroom.toml", "--cluster", "t4:4", "--place", "best-fit"];
  // The report is named after the trace, so the trace is named as a reader would name it.
  await run(BINARY, ["sim", ...trace, ...policies, "--out", out], { cwd: resolve("..") });
  await narrow.goto(`file://${join(out, "report.html")}`);
  await pause(1);
  await narrow.screenshot({ path: join(IMAGES, "strip-report.png") });
  await narrow.setViewportSize({ width: 1280, height: 900 });
  await pause(1);
  await narrow.screenshot({ path: join(IMAGES, "report.png") });
  await browser.close();
}

const { child, url } = await startDaemon();
try {
  const job = await fillQueue();
  await pause(WARM_UP_SECONDS);
  await pictures(url, job);
} finally {
  await rota("cancel", "--yes", "--name", "*").catch(() => "");
  const ended = new Promise((done) => child.once("exit", done));
  child.kill("SIGTERM");
  await ended;
  await pause(2);
  rmSync(folder, { recursive: true, force: true });
}
