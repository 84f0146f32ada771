// How the job came to be where it is: its events in order.

import { call } from "../../api/client";
import type { LiveEvent } from "../../api/contract";
import { changes, now } from "../../live/store";
import { duration, inLocalTime, moment, secondsBetween } from "../../logic/format";
import { useAnswer } from "../../parts/answer";
import { Loading, Trouble } from "../../parts/notice";

const GOOD = new Set(["started", "finished"]);
const BAD = new Set(["failed", "lost", "cancelled"]);

/** The few details of an event that people want; whatever else it has stays in the API. */
function detailOf(event: LiveEvent): string {
  const detail = (event.detail ?? {}) as Record<string, unknown>;
  const parts: string[] = [];
  if (Array.isArray(detail.gpus)) parts.push(`on GPU ${detail.gpus.join(", ")}`);
  if (typeof detail.attempt === "number" && detail.attempt > 1) parts.push(`attempt ${detail.attempt}`);
  if (typeof detail.exit_code === "number") parts.push(`exit code ${detail.exit_code}`);
  if (typeof detail.signal === "number") parts.push(`signal ${detail.signal}`);
  if (typeof detail.priority === "number") parts.push(`to ${detail.priority}`);
  if (typeof detail.reason === "string") {
    const reason = inLocalTime(detail.reason);
    if (!parts.includes(reason)) parts.push(reason);
  }
  return parts.join(" · ");
}

export function Story(props: { id: number }) {
  const answer = useAnswer<LiveEvent[]>(
    String(props.id),
    (stop) => call(`jobs/${props.id}/events`, { signal: stop }),
    changes.value,
  );
  const events = answer.value;
  return (
    <section class="panel story" aria-label="state history">
      <h2>History</h2>
      {!events && answer.problem && <Trouble what="its history" problem={answer.problem} again={answer.again} />}
      {!events && !answer.problem && <Loading what="its history" />}
      {events && events.length === 0 && <p class="quiet-text">Nothing is recorded of it any more.</p>}
      {events && (
        <ol>
          {events.map((event, at) => {
            const before = events[at - 1];
            const gap = before ? secondsBetween(before.at, event.at) : null;
            return (
              <li key={event.seq} class={GOOD.has(event.kind) ? "good" : BAD.has(event.kind) ? "bad" : ""}>
                <strong>{event.kind}</strong>
                <time dateTime={event.at}>{moment(event.at, now.value)}</time>
                <span class="quiet-text">
                  {[gap !== null && gap >= 1 ? `after ${duration(Math.round(gap))}` : "", detailOf(event)]
                    .filter(Boolean)
                    .join(" · ")}
                </span>
              </li>
            );
          })}
        </ol>
      )}
    </section>
  );
}
