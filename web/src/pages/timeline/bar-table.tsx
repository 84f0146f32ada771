// The timeline in words, for whoever does not see it or wants to copy it.

import type { TimelineBar, TimelineGpu } from "../../api/contract";
import { now } from "../../live/store";
import { duration, moment, secondsBetween } from "../../logic/format";
import type { Plan } from "../../logic/planned";
import type { View } from "../../logic/view";
import { JobLink } from "../../parts/job";

const ROWS_MAX = 500;

/** Waiting jobs with their expected starts. */
function PlanTable(props: { plans: Plan[] }) {
  return (
    <table class="jobs">
      <caption>{props.plans.length} expected, the next first</caption>
      <thead>
        <tr>
          <th>job</th>
          <th>user</th>
          <th>expected start</th>
          <th>expected end</th>
        </tr>
      </thead>
      <tbody>
        {props.plans.map((plan) => (
          <tr key={plan.job}>
            <td class="job-cell">
              <JobLink id={plan.job} name={plan.name} />
              <span class="quiet-text number">{plan.job}</span>
            </td>
            <td data-label="user">
              <bdi>{plan.user}</bdi>
            </td>
            <td data-label="start">{moment(plan.start, now.value)}</td>
            <td data-label="end">{plan.isEndKnown ? moment(plan.finish, now.value) : "not known"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function BarTable(props: { bars: TimelineBar[]; plans: Plan[]; gpus: TimelineGpu[]; view: View }) {
  const index = new Map(props.gpus.map((gpu) => [gpu.uuid, gpu.index]));
  const seen = props.bars.filter(
    (bar) => Date.parse(bar.start) < props.view.to && (bar.finish === null || Date.parse(bar.finish) > props.view.from),
  );
  seen.sort((a, b) => b.start.localeCompare(a.start));
  return (
    <section aria-label="stays in view">
      {props.plans.length > 0 && <PlanTable plans={props.plans} />}
      <table class="jobs">
        <caption>
          {seen.length > ROWS_MAX ? `The latest ${ROWS_MAX} of ${seen.length} stays in view` : `${seen.length} stays in view`}, the
          latest first
        </caption>
        <thead>
          <tr>
            <th>job</th>
            <th>user</th>
            <th>GPUs</th>
            <th>from</th>
            <th>to</th>
            <th class="number">for</th>
            <th>end</th>
          </tr>
        </thead>
        <tbody>
          {seen.slice(0, ROWS_MAX).map((bar) => (
            <tr key={`${bar.job} ${bar.start}`}>
              <td class="job-cell">
                <JobLink id={bar.job} name={bar.name} />
                <span class="quiet-text number">{bar.job}</span>
              </td>
              <td data-label="user">
                <bdi>{bar.user}</bdi>
              </td>
              <td data-label="GPU">{bar.gpus.map((uuid) => index.get(uuid) ?? "?").join(", ")}</td>
              <td data-label="from">{moment(bar.start, now.value)}</td>
              <td data-label="to">{bar.finish === null ? "now" : moment(bar.finish, now.value)}</td>
              <td class="number" data-label="for">
                {duration(secondsBetween(bar.start, bar.finish ?? now.value))}
              </td>
              <td>{bar.finish === null ? bar.state : (bar.end ?? bar.state)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
