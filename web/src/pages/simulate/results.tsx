// Policies beside each other: a table with the best of each measure marked, bars of one measure, and their Gantt charts.

import { useEffect, useState } from "preact/hooks";
import { open, wordsOf } from "../../api/client";
import type { Simulation, Summary } from "../../api/contract";
import { colourOfName } from "../../logic/colours";
import { Swatch } from "../../parts/job";
import { bestOf, MEASURES, type Measure } from "./measures";

function Cell(props: { measure: Measure; summary: Summary; best: string | null; most: number }) {
  const value = props.measure.of(props.summary);
  const shown = props.measure.show(value);
  const isBest = value !== null && shown === props.best;
  return (
    <td class={`number ${isBest ? "best" : ""}`} data-label={props.measure.name}>
      {shown}
      {isBest && <span class="best-mark">best</span>}
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

function Comparison(props: { results: Summary[] }) {
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
          <tr key={`${at} ${summary.policy}`}>
            <th scope="row">
              <Swatch colour={colourOfName(summary.policy)} />
              {summary.policy}
            </th>
            {columns.map((column) => (
              <Cell key={column.measure.name} {...column} summary={summary} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A picture from the daemon, as an image and never as part of the page. */
function GanttPicture(props: { id: string; index: number; policy: string }) {
  const [source, setSource] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    let address: string | null = null;
    open(`api/v1/simulations/${encodeURIComponent(props.id)}/gantt/${props.index}`, { signal: stop.signal })
      .then((response) => response.blob())
      .then((blob) => {
        if (stop.signal.aborted) return;
        address = URL.createObjectURL(new Blob([blob], { type: "image/svg+xml" }));
        setSource(address);
      })
      .catch((error) => !stop.signal.aborted && setProblem(wordsOf(error)));
    return () => {
      stop.abort();
      if (address !== null) URL.revokeObjectURL(address);
    };
  }, [props.id, props.index]);
  return (
    <figure class="gantt-picture">
      <figcaption>
        <Swatch colour={colourOfName(props.policy)} />
        {props.policy}
      </figcaption>
      {source && <img src={source} alt={`Gantt chart of the GPUs under ${props.policy}`} />}
      {problem && <p class="notice trouble">{problem}</p>}
    </figure>
  );
}

export function Results(props: { simulation: Simulation }) {
  const { simulation } = props;
  const first = simulation.results[0];
  return (
    <>
      <section class="panel" aria-label="comparison">
        <div class="section-head">
          <h2>Comparison</h2>
          {first && <p class="quiet-text">{first.jobs.toLocaleString("en")} jobs</p>}
        </div>
        <div class="scroll">
          <Comparison results={simulation.results} />
        </div>
      </section>
      {simulation.state === "done" && (
        <section class="gantts" aria-label="Gantt charts">
          {simulation.results.map((summary, index) => (
            <GanttPicture key={`${index} ${summary.policy}`} id={String(simulation.id)} index={index} policy={summary.policy} />
          ))}
        </section>
      )}
    </>
  );
}
