// The schedule of one policy, drawn by the page itself; of very large ones the daemon's picture is shown.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, open, wordsOf } from "../../api/client";
import type { ScheduleBars, Timeline } from "../../api/contract";
import { colourOfJob, colourOfName, inkOn } from "../../logic/colours";
import { duration } from "../../logic/format";
import { type Bar, layOut, type Row } from "../../logic/lanes";
import { relativeTicks } from "../../logic/ticks";
import { spanOf, type View } from "../../logic/view";
import { useAnswer } from "../../parts/answer";
import { watchWidth } from "../../parts/canvas";
import { Swatch } from "../../parts/job";
import { Loading, Trouble } from "../../parts/notice";
import { theme } from "../../theme";
import { Gantt, type Paint, paletteNow, placesOf } from "../timeline/gantt";
import { followGestures } from "../timeline/gestures";

const numberOf = (job: string) => (/^\d{1,9}$/.test(job) ? Number(job) : null);

/** The bars as the timeline has them, with moments counted from 0. */
export function rowsOf(schedule: ScheduleBars): Row[] {
  const uuid = (gpu: number) => `gpu ${gpu}`;
  const gpus: Timeline["gpus"] = schedule.gpus.map((type, index) => ({ uuid: uuid(index), index, name: type, type }));
  const bars: Timeline["bars"] = (schedule.bars ?? []).map((bar) => ({
    job: numberOf(bar.job) ?? 0,
    name: bar.kind ? `${bar.kind} ${bar.job}` : `job ${bar.job}`,
    user: bar.user,
    state: "done",
    end: bar.end,
    gpus: bar.gpus.map(uuid),
    start: new Date(bar.start_s * 1000).toISOString(),
    finish: new Date(bar.end_s * 1000).toISOString(),
  }));
  return layOut(gpus, bars);
}

const PAINT: Paint = {
  fill: (bar) => (bar.source.job > 0 ? colourOfJob(bar.source.job) : colourOfName(bar.source.name ?? "")),
  ink: inkOn,
  label: (bar) => bar.source.name ?? "",
  planned: () => "#8c96a1",
};

function Chart(props: { schedule: ScheduleBars; policy: string; untilSeconds: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<Bar | null>(null);
  const rows = rowsOf(props.schedule);
  const places = placesOf(rows);
  const height = (places.at(-1)?.top ?? 0) + (places.at(-1)?.height ?? 0) + 1;
  const shade = theme.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a schedule does not change; a theme is a new chart.
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const chart = new Gantt(element, paletteNow(), PAINT);
    const whole: View = { from: 0, to: Math.max(1, props.schedule.until_s * 1000, props.untilSeconds * 1000) };
    chart.marks = relativeTicks;
    chart.now = Number.POSITIVE_INFINITY;
    chart.view = whole;
    chart.setRows(rows);
    const unwatch = watchWidth(element, (width) => chart.setWidth(width));
    const show = (view: View) => {
      const span = Math.min(spanOf(view), spanOf(whole));
      const from = Math.max(0, Math.min(view.from, whole.to - span));
      chart.view = { from, to: from + span };
      chart.redraw();
    };
    const unfollow = followGestures(element, {
      view: () => chart.view,
      width: () => element.clientWidth || 1,
      anchor: () => 0.5,
      change: show,
      hover(x, y) {
        chart.hovered = chart.at(x, y);
        chart.redraw();
        setHovered(chart.hovered);
      },
      leave() {
        chart.hovered = null;
        chart.redraw();
        setHovered(null);
      },
      click: () => undefined,
      home: () => show(whole),
    });
    return () => {
      unwatch();
      unfollow();
      chart.stop();
    };
  }, [props.schedule, props.untilSeconds, shade]);
  const said = hovered
    ? `${hovered.source.name}, ${duration(hovered.start / 1000)} to ${duration(hovered.finish / 1000)}, ${hovered.source.end}`
    : "";
  return (
    <>
      <div class="gantt">
        <ol class="gantt-labels" aria-hidden="true">
          {rows.map((row, at) => (
            <li key={row.gpu.uuid} style={{ height: `${places[at]?.height ?? 0}px` }}>
              <strong>{row.gpu.index}</strong>
              <span class="type">{row.gpu.type}</span>
            </li>
          ))}
        </ol>
        <div class="gantt-canvas">
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={`Gantt chart of the GPUs under ${props.policy}. Keys: plus, minus, arrows, 0.`}
            style={{ height: `${height}px` }}
          />
        </div>
      </div>
      <p class="quiet-text under-chart">{said || "time since the first arrival; wheel: zoom, drag: move"}</p>
    </>
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
  if (problem) return <p class="notice trouble">{problem}</p>;
  return source ? <img src={source} alt={`Gantt chart of the GPUs under ${props.policy}`} /> : null;
}

/** The schedule of a policy. All are drawn until the same moment, so that the lengths of their bars can be compared. */
export function Schedule(props: { id: string; index: number; policy: string; untilSeconds: number }) {
  const answer = useAnswer<ScheduleBars>(`${props.id} ${props.index}`, (stop) =>
    call(`simulations/${encodeURIComponent(props.id)}/bars/${props.index}`, { signal: stop }),
  );
  const schedule = answer.value;
  return (
    <figure class="gantt-picture">
      <figcaption>
        <Swatch colour={colourOfName(props.policy)} />
        {props.policy}
      </figcaption>
      {!schedule && answer.problem && <Trouble what="the schedule" problem={answer.problem} again={answer.again} />}
      {!schedule && !answer.problem && <Loading what="the schedule" />}
      {schedule &&
        (schedule.bars ? (
          <Chart schedule={schedule} policy={props.policy} untilSeconds={props.untilSeconds} />
        ) : (
          <GanttPicture {...props} />
        ))}
    </figure>
  );
}
