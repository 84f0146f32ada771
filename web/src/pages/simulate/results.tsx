// Policies beside each other and beside what really happened: a sentence, a table with the best of each measure marked, their schedules.

import type { Simulation, Summary } from "../../api/contract";
import { colourOfName } from "../../logic/colours";
import { Swatch } from "../../parts/job";
import { bestOf, MEASURES, type Measure, verdictOf } from "./measures";
import { Schedule } from "./schedule";

function Cell(props: { measure: Measure; summary: Summary; isBest: boolean; most: number }) {
  const value = props.measure.of(props.summary);
  return (
    <td class={`number ${props.isBest ? "best" : ""}`} data-label={props.measure.name}>
      {props.measure.show(value)}
      {props.isBest && <span class="best-mark">best</span>}
      <span class="meter" aria-hidden="true">
        <i
          style={{
            width: `${value === null || props.most <= 0 ? 0 : (value / props.most) * 100}%`,
            background: colourOfName(props.summary.policy),
          }}
        />
      </span>
    </td>
  );
}

/** What really happened comes first; the policies are compared with each other and with it. */
function Comparison(props: { results: Summary[]; hasHappened: boolean }) {
  const { results } = props;
  const columns = MEASURES.map((measure) => ({
    measure,
    best: bestOf(measure, results),
    most: Math.max(...results.map((summary) => measure.of(summary) ?? 0)),
  }));
  return (
    <table class="comparison">
      <thead>
        <tr>
          <th>policy</th>
          {MEASURES.map((measure) => (
            <th key={measure.name} class="number" title={measure.meaning}>
              {measure.name}
              <small class="quiet-text">{measure.better} is better</small>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {results.map((summary, at) => (
          <tr key={`${at} ${summary.policy}`} class={props.hasHappened && at === 0 ? "happened" : ""}>
            <th scope="row">
              <Swatch colour={colourOfName(summary.policy)} />
              {summary.policy}
            </th>
            {columns.map((column) => (
              <Cell
                key={column.measure.name}
                measure={column.measure}
                most={column.most}
                isBest={column.best === at}
                summary={summary}
              />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Results(props: { simulation: Simulation }) {
  const { simulation } = props;
  const happened = simulation.happened ?? null;
  const rows = [...(happened ? [happened] : []), ...simulation.results];
  const first = simulation.results[0];
  const verdict = verdictOf(rows);
  const untilSeconds = Math.max(0, ...rows.map((summary) => summary.makespan_s ?? 0));
  // The daemon has the chart of what happened after those of the policies.
  const charts = [
    ...(happened ? [{ index: simulation.results.length, policy: happened.policy }] : []),
    ...simulation.results.map((summary, index) => ({ index, policy: summary.policy })),
  ];
  return (
    <>
      <section class="panel" aria-label="comparison">
        <div class="section-head">
          <h2>Comparison</h2>
          {first && <p class="quiet-text">{first.jobs.toLocaleString("en")} jobs</p>}
        </div>
        {verdict && <p class="verdict">{verdict}</p>}
        {happened && (
          <p class="quiet-text">
            Jobs that have not ended are left out. They held GPUs in what happened, so that its times may be longer.
          </p>
        )}
        <Comparison results={rows} hasHappened={happened !== null} />
      </section>
      {simulation.state === "done" && (
        <section class="gantts" aria-label="Gantt charts">
          {charts.map((chart) => (
            <Schedule key={chart.index} id={String(simulation.id)} untilSeconds={untilSeconds} {...chart} />
          ))}
        </section>
      )}
    </>
  );
}
