// Keeps the store true: one event stream says that something changed, and what changed is asked for once for all events that came
// together; gauges are looked at every two seconds. A page that nobody sees does neither.

import { batch } from "@preact/signals";
import { call, isAbort, Problem, session } from "../api/client";
import type { Explanation, Job, Predictions, Status } from "../api/contract";
import { listen } from "../api/stream";
import {
  changes,
  earlierPredictions,
  ended,
  expected,
  forgetAll,
  jobs,
  link,
  looks,
  now,
  predictions,
  recordGauges,
  status,
} from "./store";

const LOOK_MS = 2_000;
const TOGETHER_MS = 250;
const LIST_AT_LEAST_MS = 15_000;
const RETRY_MS = [300, 700, 1_500, 3_000, 5_000];
/** A tab in the background gives its connection back: browsers allow six to one server. */
const HIDDEN_MS = 60_000;
const ENDED_SHOWN = 8;
/** Lists are in order of arrival; whoever ended last is among the latest of these. */
const ENDED_ASKED = 60;
const EXPECTED_ASKED = 16;
const EXPECTED_EVERY_MS = 4_000;

let lastId: string | null = null;
let stopAll: AbortController | null = null;

/** Begins once somebody is signed in, ends when nobody is any more. */
export function start(): void {
  stop();
  const controller = new AbortController();
  stopAll = controller;
  void followEvents(controller.signal);
  void everySecond(controller.signal);
}

export function stop(): void {
  stopAll?.abort();
  stopAll = null;
  lastId = null;
  link.value = "connecting";
  forgetAll();
}

const pause = (ms: number, stop: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      stop.removeEventListener("abort", done);
      resolve();
    }
    stop.addEventListener("abort", done);
  });

const becomesVisible = (stop: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (!document.hidden || stop.aborted) return resolve();
    function look() {
      if (document.hidden && !stop.aborted) return;
      document.removeEventListener("visibilitychange", look);
      stop.removeEventListener("abort", look);
      resolve();
    }
    document.addEventListener("visibilitychange", look);
    stop.addEventListener("abort", look);
  });

async function followEvents(stop: AbortSignal): Promise<void> {
  let failures = 0;
  while (!stop.aborted) {
    await becomesVisible(stop);
    const away = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onVisibility = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => away.abort(), HIDDEN_MS);
    };
    document.addEventListener("visibilitychange", onVisibility);
    try {
      await listen("events", lastId, AbortSignal.any([stop, away.signal]), {
        onOpen() {
          failures = 0;
          link.value = "live";
          // Whatever happened while nobody listened.
          somethingChanged(stop);
        },
        onEvent(event) {
          lastId = event.id ?? lastId;
          somethingChanged(stop);
        },
      });
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return;
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisibility);
    }
    if (stop.aborted || away.signal.aborted) continue;
    link.value = "reconnecting";
    const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 5_000;
    failures += 1;
    // Not everybody at the same moment.
    await pause(wait * (0.8 + Math.random() * 0.4), stop);
  }
}

let pending: ReturnType<typeof setTimeout> | null = null;
let listedAt = 0;

/** At once if nothing was asked for a moment ago; otherwise together with whatever else comes until then. */
function somethingChanged(stop: AbortSignal): void {
  if (pending !== null) return;
  const soon = () => {
    pending = null;
    if (stop.aborted) return;
    changes.value += 1;
    void refresh(stop);
  };
  pending = setTimeout(soon, Math.max(0, listedAt + TOGETHER_MS - Date.now()));
}

/** After the page itself changed something: at once, whatever the events say. */
export function refreshNow(): void {
  if (stopAll) somethingChanged(stopAll.signal);
}

async function refresh(stop: AbortSignal): Promise<void> {
  listedAt = Date.now();
  const dayAgo = new Date(Date.now() - 86_400_000).toISOString();
  try {
    const [listed, over] = await Promise.all([
      call<Job[]>("jobs", { query: { limit: 1_000 }, signal: stop }),
      call<Job[]>("jobs", { query: { since: dayAgo, limit: ENDED_ASKED }, signal: stop }),
      look(stop),
    ]);
    batch(() => {
      jobs.value = listed;
      ended.value = over.sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? "")).slice(0, ENDED_SHOWN);
    });
    void askExpected(stop);
  } catch (error) {
    if (!isAbort(error) && error instanceof Problem && error.status === 0) link.value = "reconnecting";
  }
}

let askedAt = 0;
let isAsking = false;

/** What is expected of the queue. Jobs that nothing is predicted of are asked about one by one; each costs the scheduler a thought. */
async function askExpected(stop: AbortSignal): Promise<void> {
  if (isAsking || Date.now() - askedAt < EXPECTED_EVERY_MS) return;
  isAsking = true;
  askedAt = Date.now();
  const found = new Map<number, string | null>();
  try {
    const said = await call<Predictions>("predictions", { signal: stop });
    for (const job of said.jobs) if (job.start_p50) found.set(job.id, job.start_p50);
    if (!stop.aborted) {
      predictions.value = said.jobs;
      earlierPredictions.value = said.earlier ?? null;
    }
    const waiting = (jobs.peek() ?? [])
      .filter((job) => job.state === "waiting" && !job.start_p50 && !found.has(job.id))
      .slice(0, EXPECTED_ASKED);
    for (const job of waiting) {
      const said = await call<Explanation>(`jobs/${job.id}/explain`, { signal: stop });
      found.set(job.id, said.start_p50 ?? null);
    }
  } catch {
    // A job that ended meanwhile, or a daemon that is away: the next look asks again.
  } finally {
    isAsking = false;
  }
  if (!stop.aborted) expected.value = found;
}

async function look(stop: AbortSignal): Promise<void> {
  const seen = await call<Status>("status", { signal: stop });
  recordGauges(seen.gpus);
  batch(() => {
    status.value = seen;
    looks.value += 1;
  });
}

async function everySecond(stop: AbortSignal): Promise<void> {
  let lookedAt = 0;
  while (!stop.aborted) {
    await becomesVisible(stop);
    now.value = Date.now();
    if (Date.now() - lookedAt >= LOOK_MS && link.peek() === "live") {
      lookedAt = Date.now();
      try {
        await look(stop);
      } catch {
        // The event stream says whether the daemon is there.
      }
      if (Date.now() - listedAt > LIST_AT_LEAST_MS) void refresh(stop);
      else if ((jobs.peek() ?? []).some((job) => job.state === "waiting")) void askExpected(stop);
    }
    await pause(1_000 - (Date.now() % 1_000), stop);
  }
}

/** Who is signed in, asked until the daemon answers. */
export async function findSession(): Promise<void> {
  for (let tries = 0; session.peek() === undefined; tries += 1) {
    try {
      session.value = await call("session");
    } catch (error) {
      if (error instanceof Problem && error.status === 401) session.value = null;
      else {
        link.value = "reconnecting";
        await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)] ?? 5_000, new AbortController().signal);
      }
    }
  }
}
