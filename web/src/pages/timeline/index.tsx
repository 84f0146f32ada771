// Timeline: who was on which GPU, when; live while the present is in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Timeline } from "../../api/contract";
import { changes, jobs, now, predictions, status } from "../../live/store";
import { colourOfJob, colourOfName, inkOn } from "../../logic/colours";
import { clockOf, dayOf, duration, percent, plural } from "../../logic/format";
import { type Bar, busyPart, layOut } from "../../logic/lanes";
import { openGpus, plansByGpu, restOf, waitingPlans } from "../../logic/planned";
import { fittedTo, RIM, RIM_WITH_PLANS, spanOf, upToNow, type View } from "../../logic/view";
import { useAnswer, useSettled } from "../../parts/answer";
import { watchWidth } from "../../parts/canvas";
import { Empty, Loading, Trouble } from "../../parts/notice";
import { isVirtual, VirtualBadge } from "../../parts/virtual";
import { go, rememberInAddress, route } from "../../route";
import { theme } from "../../theme";
import { BarTable } from "./bar-table";
import { Gantt, type Paint, paletteNow, placesOf } from "./gantt";
import { followGestures } from "./gestures";
import { Tip, type TipAt } from "./tip";

const RANGES: [string, number][] = [
  ["15 min", 15 * 60_000],
  ["1 h", 3_600_000],
  ["6 h", 6 * 3_600_000],
  ["24 h", 86_400_000],
  ["7 d", 7 * 86_400_000],
  ["4 w", 28 * 86_400_000],
];

type ColourBy = "job" | "user" | "state";

const STATE_COLOURS: Record<string, string> = {
  finished: "#009e73",
  failed: "#d55e00",
  lost: "#d55e00",
  cancelled: "#8c96a1",
  preempted: "#e69f00",
  evicted: "#e69f00",
  retried: "#e69f00",
};

const PAINTS: Record<ColourBy, (bar: Bar) => string> = {
  job: (bar) => colourOfJob(bar.source.job),
  user: (bar) => colourOfName(bar.source.user),
  state: (bar) => (bar.source.end === null ? "#0072b2" : (STATE_COLOURS[bar.source.end] ?? "#8c96a1")),
};

function paintBy(by: ColourBy): Paint {
  const inks = new Map<string, string>();
  return {
    fill: PAINTS[by],
    planned: (plan) => (by === "user" ? colourOfName(plan.user) : by === "job" ? colourOfJob(plan.job) : "#8c96a1"),
    label: (bar) => (by === "user" ? `${bar.source.user} · ` : "") + (bar.source.name || `job ${bar.source.job}`),
    ink(fill) {
      let ink = inks.get(fill);
      if (!ink) {
        ink = inkOn(fill);
        inks.set(fill, ink);
      }
      return ink;
    },
  };
}

function firstView(): View {
  const query = route.peek().query;
  const [from, to] = [Date.parse(query.get("from") ?? ""), Date.parse(query.get("to") ?? "")];
  return from < to ? { from, to } : upToNow(Number(query.get("span")) || 3_600_000, Date.now());
}

/** What to load for a view: more than is seen, in steps, so that small moves need no new answer. */
function loadedFor(view: View): View {
  const step = Math.max(60_000, spanOf(view) / 2);
  return { from: Math.floor(view.from / step - 1) * step, to: Math.ceil(view.to / step + 1) * step };
}

export function TimelinePage() {
  const [view, setView] = useState(firstView);
  const [isLive, setIsLive] = useState(!route.peek().query.has("from"));
  const [by, setBy] = useState<ColourBy>("job");
  const [tip, setTip] = useState<TipAt | null>(null);
  const [isTable, setIsTable] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  const gantt = useRef<Gantt | null>(null);

  const settled = useSettled(view, 150);
  const wanted = loadedFor(settled);
  const range = `${new Date(wanted.from).toISOString()} ${new Date(wanted.to).toISOString()}`;
  const events = useSettled(changes.value, 400);
  const answer = useAnswer<Timeline>(
    range,
    (stop) =>
      call("timeline", {
        query: { from: new Date(wanted.from).toISOString(), to: new Date(wanted.to).toISOString() },
        signal: stop,
      }),
    events,
  );
  // While the next stretch is being loaded the last one stays in view.
  const kept = useRef<Timeline | null>(null);
  if (answer.value) kept.current = answer.value;
  const timeline = answer.value ?? kept.current;
  const rows = useMemo(() => (timeline ? layOut(timeline.gpus, timeline.bars) : []), [timeline]);
  const places = useMemo(() => placesOf(rows), [rows]);
  // The chart moves by itself while it is live, so this and not the page's state is what is in view at any moment.
  const state = useRef({ view, isLive });
  // What is expected moves with the present; a few seconds are soon enough.
  const soon = Math.floor(now.value / 3_000) * 3_000;
  const [listed, predicted, machine] = [jobs.value, predictions.value, status.value?.gpus];
  const plans = useMemo(() => {
    if (!timeline) return [];
    const rest = restOf(timeline.bars, listed ?? [], soon);
    return [...rest, ...waitingPlans(openGpus(timeline.gpus, machine), listed ?? [], predicted, rest, soon)];
  }, [timeline, listed, predicted, machine, soon]);
  const rim = useRef(RIM);
  rim.current = plans.length > 0 ? RIM_WITH_PLANS : RIM;
  const busy = useMemo(() => rows.map((row) => busyPart(row, settled.from, Math.min(settled.to, Date.now()))), [rows, settled]);

  const rimOf = useRef(RIM);
  const change = (next: View, live: boolean) => {
    state.current = { view: next, isLive: live };
    rimOf.current = Math.max(0, Math.min(1, (next.to - Date.now()) / spanOf(next)));
    if (gantt.current) {
      gantt.current.view = next;
      gantt.current.redraw();
    }
    setView(next);
    setIsLive(live);
  };
  const home = (span = spanOf(state.current.view)) => change(upToNow(span, Date.now(), rim.current), true);
  // A young queue fills the chart; whoever came with a span in the address keeps it.
  const isFitted = useRef(route.peek().query.has("from") || route.peek().query.has("span"));
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the first bars are there.
  useEffect(() => {
    if (!timeline || timeline.bars.length === 0 || isFitted.current || !isLive) return;
    isFitted.current = true;
    const first = Math.min(...timeline.bars.map((bar) => Date.parse(bar.start)));
    const last = Math.max(Date.now(), ...plans.map((plan) => plan.finish));
    change(fittedTo(first, last, spanOf(view), Date.now()) ?? upToNow(spanOf(view), Date.now(), rim.current), true);
  }, [timeline]);

  useEffect(() => {
    const { from, to } = settled;
    const address: Record<string, string | null> = isLive
      ? { from: null, to: null, span: String(Math.round(spanOf(settled))) }
      : { from: new Date(from).toISOString(), to: new Date(to).toISOString(), span: null };
    rememberInAddress(address);
  }, [settled, isLive]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: made once there is a canvas; all else is handed over below.
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const chart = new Gantt(element, paletteNow(), paintBy(by));
    gantt.current = chart;
    chart.view = state.current.view;
    chart.setRows(rows);
    chart.setPlans(plansByGpu(plans));
    const unwatch = watchWidth(element, (width) => chart.setWidth(width));
    const unfollow = followGestures(element, {
      view: () => state.current.view,
      width: () => element.clientWidth || 1,
      anchor: () => (state.current.isLive ? (Date.now() - state.current.view.from) / spanOf(state.current.view) : 0.5),
      change(next) {
        // Whoever zooms while the present is in view keeps seeing it come.
        const present = Date.now();
        change(next, state.current.isLive && next.to >= present && next.from < present);
      },
      hover(x, y) {
        const bar = chart.at(x, y);
        if (chart.hovered !== bar) {
          chart.hovered = bar;
          chart.redraw();
        }
        const plan = bar ? null : chart.planAt(x, y);
        element.classList.toggle("over-bar", bar !== null || plan !== null);
        setTip(bar ? { bar, x, y } : plan ? { plan, x, y } : null);
      },
      leave() {
        chart.hovered = null;
        chart.redraw();
        setTip(null);
      },
      click(x, y) {
        const bar = chart.at(x, y);
        const job = bar?.source.job ?? chart.planAt(x, y)?.job;
        if (job !== undefined) go("job", job);
      },
      home: () => home(),
    });
    let frame = 0;
    let drawnAt = 0;
    // The present keeps the place in the view that it had when the view was chosen.
    // The present moves: drawn anew whenever it moved by half a pixel.
    const advance = () => {
      frame = requestAnimationFrame(advance);
      const present = Date.now();
      if ((present - drawnAt) * chart.pixelsPerMs < 0.5 && present - drawnAt < 1_000) return;
      drawnAt = present;
      chart.now = present;
      if (state.current.isLive) {
        const moved = present - (state.current.view.to - spanOf(state.current.view) * rimOf.current);
        if (Math.abs(moved) * chart.pixelsPerMs >= 0.5 && moved > 0) {
          const next = { from: state.current.view.from + moved, to: state.current.view.to + moved };
          state.current.view = next;
          chart.view = next;
        }
      }
      chart.redraw();
    };
    frame = requestAnimationFrame(advance);
    return () => {
      cancelAnimationFrame(frame);
      unwatch();
      unfollow();
      chart.stop();
      gantt.current = null;
    };
  }, [rows.length > 0]);

  // The view that moved by itself is told to the page every so often, so that more is loaded.
  const second = now.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once a second.
  useEffect(() => {
    const moved = state.current.view;
    if (isLive && Math.abs(moved.from - view.from) > spanOf(moved) / 20) setView(moved);
  }, [second]);
  useEffect(() => {
    gantt.current?.setRows(rows);
  }, [rows]);
  useEffect(() => {
    gantt.current?.setPlans(plansByGpu(plans));
  }, [plans]);
  const shade = theme.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes what the palette reads.
  useEffect(() => {
    gantt.current?.setLook(paletteNow(), paintBy(by));
  }, [by, shade]);

  const count = timeline?.bars.length ?? 0;
  const height = (places.at(-1)?.top ?? 0) + (places.at(-1)?.height ?? 0) + 1;
  const [from, to] = [new Date(view.from), new Date(view.to)];
  const spoken = `${dayOf(from)} ${clockOf(from)} to ${from.toDateString() === to.toDateString() ? "" : `${dayOf(to)} `}${clockOf(to)}`;
  return (
    <>
      <div class="section-head">
        <h1>Timeline</h1>
        <p class="quiet-text" aria-live="off" data-testid="span">
          {spoken} · {duration(Math.round(spanOf(view) / 1000))}
        </p>
        <div class="controls">
          <span class="switch" role="group" aria-label="how much time is in view">
            {RANGES.map(([label, span]) => (
              <button key={label} type="button" aria-pressed={Math.abs(spanOf(view) / span - 1) < 0.01} onClick={() => home(span)}>
                {label}
              </button>
            ))}
          </span>
          <span class="switch" role="group" aria-label="zoom">
            <button
              type="button"
              aria-label="earlier"
              onClick={() => change({ from: view.from - spanOf(view) / 3, to: view.to - spanOf(view) / 3 }, false)}
            >
              ←
            </button>
            <button
              type="button"
              aria-label="later"
              onClick={() => change({ from: view.from + spanOf(view) / 3, to: view.to + spanOf(view) / 3 }, false)}
            >
              →
            </button>
          </span>
          <button type="button" aria-pressed={isLive} onClick={() => home()}>
            now
          </button>
          <label>
            colour by{" "}
            <select value={by} onChange={(event) => setBy(event.currentTarget.value as ColourBy)}>
              <option value="job">job</option>
              <option value="user">user</option>
              <option value="state">end</option>
            </select>
          </label>
          <button type="button" aria-pressed={isTable} onClick={() => setIsTable(!isTable)}>
            as a table
          </button>
        </div>
      </div>
      {answer.problem && <Trouble what="the timeline could not be loaded" problem={answer.problem} again={answer.again} />}
      {!timeline && !answer.problem && <Loading what="the timeline" />}
      {timeline && rows.length === 0 && <Empty>No GPU was there in this time.</Empty>}
      {rows.length > 0 && (
        <div class="gantt">
          <ol class="gantt-labels" aria-hidden="true">
            {rows.map((row, at) => (
              <li key={row.gpu.uuid} style={{ height: `${places[at]?.height ?? 0}px` }}>
                <strong>GPU {row.gpu.index}</strong>
                <span class="type">
                  {row.gpu.type} {isVirtual(row.gpu) && <VirtualBadge />}
                </span>
                <span class="number quiet-text" title="allocated of the time in view">
                  {percent(busy[at])}
                </span>
              </li>
            ))}
          </ol>
          <div class="gantt-canvas">
            <canvas
              ref={canvas}
              tabIndex={0}
              role="img"
              aria-label={`Gantt chart of ${rows.length} GPUs, ${count} stays, ${spoken}. Keys: plus, minus, arrows, 0. There is a table of the same.`}
              style={{ height: `${height}px` }}
            />
            {tip && <Tip at={tip} now={now.value} />}
          </div>
        </div>
      )}
      {timeline?.truncated && (
        <p class="notice">More ran in this time than can be shown: only the latest are here. Look closer for the others.</p>
      )}
      {timeline && count === 0 && <Empty>Nothing ran in this time. Look further back, or start something: rota submit -- …</Empty>}
      {plans.some((plan) => plan.kind === "waits") && (
        <p class="quiet-text planned-note">
          To the right of now: {plural(plans.filter((plan) => plan.kind === "waits").length, "waiting job")} at the expected starts.
          The GPUs they are drawn on are a guess.
        </p>
      )}
      {timeline && isTable && (
        <BarTable bars={timeline.bars} plans={plans.filter((plan) => plan.kind === "waits")} gpus={timeline.gpus} view={settled} />
      )}
    </>
  );
}
