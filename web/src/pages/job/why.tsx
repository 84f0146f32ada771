// Why a job waits, with everything that stands in its way.

import { call } from "../../api/client";
import type { Counterfactual, Explanation } from "../../api/contract";
import { changes, earlierPredictions, now } from "../../live/store";
import { duration, inLocalTime, moment, secondsBetween } from "../../logic/format";
import { turnedOut } from "../../logic/planned";
import { useAnswer } from "../../parts/answer";
import { Loading, Trouble } from "../../parts/notice";

/** The jobs that would start later instead. */
const delaysOf = (one: Counterfactual) =>
  one.delays.length === 0
    ? ""
    : `, and ${one.delays.map((delay) => `job ${delay.id} ${duration(Math.round(delay.seconds))} later`).join(", ")}`;

/** The times between which the job most likely starts. */
const between = (said: Explanation) =>
  said.earliest_start && said.start_p90
    ? `, most likely between ${moment(said.earliest_start, now.value)} and ${moment(said.start_p90, now.value)}`
    : "";

export function Why(props: { id: number }) {
  // Every few seconds: expected starts move without an event.
  const tick = `${changes.value} ${Math.floor(now.value / 5_000)}`;
  const answer = useAnswer<Explanation>(String(props.id), (stop) => call(`jobs/${props.id}/explain`, { signal: stop }), tick);
  const said = answer.value;
  if (!said) {
    return answer.problem ? (
      <Trouble what="why it waits" problem={answer.problem} again={answer.again} />
    ) : (
      <Loading what="why it waits" />
    );
  }
  const wait = secondsBetween(new Date(now.value).toISOString(), said.start_p50 ?? null);
  return (
    <section class="panel why" aria-label="why it waits">
      <h2>Why it waits</h2>
      {said.blockers.length === 0 ? (
        <p>{inLocalTime(said.reason, now.value)}</p>
      ) : (
        <ul>
          {said.blockers.map((blocker) => (
            <li key={blocker.text}>
              <span class="chip">{blocker.kind}</span> {inLocalTime(blocker.text, now.value)}{" "}
              {blocker.job !== null && blocker.job !== undefined && <a href={`#/job/${blocker.job}`}>job {blocker.job}</a>}
            </li>
          ))}
        </ul>
      )}
      <p class="quiet-text">
        {said.start_p50
          ? `Expected to start at ${moment(said.start_p50, now.value)}${wait !== null && wait > 0 ? `, in ${duration(Math.round(wait))}` : ""}${between(said)}.`
          : "It is not known when it will start."}
        {said.start_p50 && earlierPredictions.value && ` ${turnedOut(earlierPredictions.value)}`}
      </p>
      {said.counterfactuals && said.counterfactuals.length > 0 && (
        <>
          <h3>What would start it sooner</h3>
          <ul>
            {said.counterfactuals.map((one) => (
              <li key={one.change}>
                <code>{one.change}</code>: it would start {one.is_now ? "now" : `about ${moment(one.start, now.value)}`}
                {delaysOf(one)}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
