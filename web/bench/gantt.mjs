// How fast the timeline is drawn: ten thousand bars on eight GPUs, zoomed and panned for some seconds in a real browser.
//
//   npm run build && npm run bench
//
// Frames are counted by the browser's own clock; the processor time of each says what a machine with nothing else to do reaches. The
// daemon is a stand-in that answers with invented bars, so nothing but the page is measured.

import { readFileSync } from "node:fs";
import http from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";

const BARS = Number(process.argv[2] ?? 10_000);
const GPUS = 8;
const SECONDS = 5;
const dist = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

const end = Date.now();
const gpus = Array.from({ length: GPUS }, (_, index) => ({ uuid: `GPU-${index}`, index, name: "A100", type: "a100" }));
const perGpu = Math.ceil(BARS / GPUS);
const length = (24 * 3_600_000) / perGpu;
const bars = Array.from({ length: BARS }, (_, at) => {
  const start = end - 24 * 3_600_000 + Math.floor(at / GPUS) * length;
  return {
    job: at + 1,
    name: `train-${at + 1}`,
    user: ["ada", "ben", "chen"][at % 3],
    state: "done",
    end: at % 17 === 0 ? "failed" : "finished",
    gpus: [`GPU-${at % GPUS}`],
    start: new Date(start).toISOString(),
    finish: new Date(start + length * (0.6 + 0.39 * ((at * 7919) % 100) * 0.01)).toISOString(),
  };
});

const answers = {
  session: { user: "ada", scope: "admin", csrf: "x" },
  timeline: { from: bars[0].start, to: new Date(end).toISOString(), gpus, bars },
  jobs: [],
  status: { gpus: [], warnings: [], draining: false, policy: "fcfs", running: 0, waiting: 0, held: 0 },
};

const server = http.createServer((request, response) => {
  const path = new URL(request.url, "http://page").pathname;
  if (path === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(": here\n\n");
  } else if (path.startsWith("/api/v1/")) {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify(answers[path.split("/")[3]] ?? {}));
  } else {
    const file = join(dist, path === "/" ? "index.html" : path);
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "text/plain" });
    response.end(readFileSync(file));
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1600, height: 900 }, deviceScaleFactor: 1 });
await page.goto(`http://127.0.0.1:${server.address().port}/#/timeline?span=86400000`);
await page.waitForSelector(".gantt canvas");
await page.waitForTimeout(1_000);

const metrics = await page.context().newCDPSession(page);
await metrics.send("Performance.enable", { timeDomain: "threadTicks" });
/** Seconds of processor time that the page's own thread has had, whatever else the machine does. */
const worked = async () =>
  (await metrics.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value;

/** Moves the view at every frame, and gives the distances between frames. */
const move = (kind) =>
  page.evaluate(
    ({ kind, seconds }) =>
      new Promise((done) => {
        const canvas = document.querySelector(".gantt canvas");
        const box = canvas.getBoundingClientRect();
        const frames = [];
        let before = performance.now();
        const began = before;
        const step = (now) => {
          frames.push(now - before);
          before = now;
          const phase = (now - began) / 1000;
          if (phase > seconds) return done(frames);
          const push = Math.sin(phase * 2) * 40;
          const wheel =
            kind === "zoom" ? { deltaY: push, clientX: box.left + box.width / 2 } : { deltaX: push, clientX: box.left + 10 };
          canvas.dispatchEvent(new WheelEvent("wheel", { ...wheel, clientY: box.top + 50, bubbles: true, cancelable: true }));
          requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
      }),
    { kind, seconds: SECONDS },
  );

console.log(`${BARS} bars on ${GPUS} GPUs, 1600 x 900`);
for (const kind of ["zoom", "pan"]) {
  const before = await worked();
  const frames = (await move(kind)).slice(1);
  const perFrame = ((await worked()) - before) / frames.length;
  const fps = 1000 / (frames.reduce((sum, ms) => sum + ms, 0) / frames.length);
  console.log(
    `${kind}: ${fps.toFixed(1)} frames/s here; ${(perFrame * 1000).toFixed(2)} ms of processor time a frame, enough for ${(1 / perFrame).toFixed(0)} frames/s`,
  );
}
await browser.close();
server.closeAllConnections();
server.close();
