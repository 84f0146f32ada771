// What a job writes, as it writes it. Lines are put into the page by hand, as text nodes only, at most once a frame and never more
// than the log keeps.

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, open, Problem, wordsOf } from "../../api/client";
import type { Job } from "../../api/contract";
import { link } from "../../live/store";
import { Log } from "../../logic/ansi";
import { LogLines } from "./log-lines";

const TAIL_LINES = 2_000;
/** Closer to the end than this counts as being there. */
const END_PIXELS = 24;

type Reading = "reading" | "over" | "broken" | "refused";

/** Lines at the end of a log that are looked at for progress and last words. */
const END_LINES = 400;
const END_EVERY_MS = 700;

const endOf = (log: Log) =>
  log.lines
    .slice(-END_LINES)
    .map((line) => line.spans.map((span) => span.text).join(""))
    .join("\n");

export function LogView(props: { job: Job; onEnd(text: string): void }) {
  const { job } = props;
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [follows, setFollows] = useState(true);
  const [reading, setReading] = useState<Reading>("reading");
  const [problem, setProblem] = useState<string | null>(null);
  const [isEmpty, setIsEmpty] = useState(true);
  const [attempt, setAttempt] = useState<number | null>(null);
  const [round, setRound] = useState(0);
  const [isWrapped, setIsWrapped] = useState(true);
  const hasStarted = job.attempts > 0;
  const latestOnEnd = useRef(props.onEnd);
  latestOnEnd.current = props.onEnd;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` reads anew after a broken connection.
  useEffect(() => {
    const element = box.current;
    if (!element || !hasStarted) return;
    const stop = new AbortController();
    const log = new Log();
    const lines = new LogLines(element);
    let frame = 0;
    let teller: ReturnType<typeof setTimeout> | undefined;
    const tell = () => {
      teller = undefined;
      latestOnEnd.current(endOf(log));
    };
    const show = () => {
      frame = 0;
      if (teller === undefined) teller = setTimeout(tell, END_EVERY_MS);
      lines.update(log);
      setIsEmpty(log.isEmpty);
      if (isFollowing.current) element.scrollTop = element.scrollHeight;
    };
    const read = async () => {
      const query = { tail: TAIL_LINES, follow: true, attempt };
      const response = await open(`api/v1/jobs/${job.id}/logs`, { query, signal: stop.signal });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      while (reader) {
        const { value, done } = await reader.read();
        if (done) break;
        log.push(value);
        if (frame === 0) frame = requestAnimationFrame(show);
      }
    };
    setReading("reading");
    setProblem(null);
    read()
      .then(() => setReading("over"))
      .catch((error) => {
        if (isAbort(error) || stop.signal.aborted) return;
        // Somebody else's log stays theirs, however often one asks.
        setReading(error instanceof Problem && error.status >= 400 && error.status < 500 ? "refused" : "broken");
        setProblem(wordsOf(error));
      });
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
      clearTimeout(teller);
      lines.clear();
    };
  }, [job.id, hasStarted, attempt, round]);

  // The box has no height before it has lines.
  useEffect(() => {
    if (!isEmpty && isFollowing.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [isEmpty]);

  // A job that goes on, or begins again, after its log was read to the end: the stream was cut, or there is a new attempt.
  const isHeard = link.value === "live";
  const goesOn = !["done", "failed", "cancelled", "lost"].includes(job.state);
  const isCut = reading === "broken" || (reading === "over" && goesOn && attempt === null);
  useEffect(() => {
    if (!isCut || !isHeard) return;
    const timer = setTimeout(() => setRound((n) => n + 1), 1_500);
    return () => clearTimeout(timer);
  }, [isCut, isHeard]);

  const follow = (wanted: boolean) => {
    isFollowing.current = wanted;
    setFollows(wanted);
    if (wanted && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < END_PIXELS;
    if (atEnd !== isFollowing.current) {
      isFollowing.current = atEnd;
      setFollows(atEnd);
    }
  };
  return (
    <section class="log" aria-label="log">
      <div class="section-head">
        <h2>Log</h2>
        <p class="quiet-text">{goesOn && reading === "reading" && hasStarted ? "following live" : ""}</p>
        <div class="controls">
          {job.attempts > 1 && (
            <label>
              attempt{" "}
              <select value={attempt ?? job.attempts} onChange={(event) => setAttempt(Number(event.currentTarget.value))}>
                {Array.from({ length: job.attempts }, (_, at) => (
                  <option key={at + 1} value={at + 1}>
                    {at + 1}
                  </option>
                ))}
              </select>
            </label>
          )}
          <button type="button" aria-pressed={isWrapped} onClick={() => setIsWrapped(!isWrapped)}>
            wrap
          </button>
          <button type="button" aria-pressed={follows} onClick={() => follow(!follows)}>
            follow
          </button>
          <a class="button" href={`api/v1/jobs/${job.id}/logs`} download={`job-${job.id}.log`}>
            whole log
          </a>
        </div>
      </div>
      {problem && (
        <p class="notice trouble" role="alert">
          {problem}
        </p>
      )}
      {!hasStarted && <p class="notice">It has not started, so it has written nothing.</p>}
      {hasStarted && isEmpty && !problem && reading !== "refused" && (
        <p class="notice">{reading === "over" ? "It wrote nothing." : "Nothing written yet."}</p>
      )}
      <div
        ref={box}
        class={`log-box ${isWrapped ? "wrapped" : ""}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard.
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="what the job wrote"
        hidden={!hasStarted || isEmpty}
        onScroll={onScroll}
      />
    </section>
  );
}
