// A curve over time with axes: uPlot in the page's colours. Plots with the same `sync` share their cursor.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, theme } from "../theme";
import { watchWidth } from "./canvas";

interface Props {
  title: string;
  /** Seconds. */
  times: number[];
  values: (number | null)[];
  max?: number;
  /** Distances between marks that are round in its unit. */
  steps?: number[];
  /** Name of the theme's colour. */
  ink: string;
  sync: string;
  height: number;
  show(value: number): string;
}

const FONT = "11px system-ui, sans-serif";

function optionsFor(props: Props, width: number): uPlot.Options {
  const [ink, quiet, grid] = [colour(props.ink), colour("quiet"), colour("grid")];
  const axis = { stroke: quiet, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: props.height,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: props.sync }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, props.max ?? (most > 0 ? most * 1.15 : 1)] } },
    axes: [
      {
        ...axis,
        size: 26,
        space: 70,
        values: "{HH}:{mm}",
        incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400],
      },
      {
        ...axis,
        size: 58,
        space: 34,
        ...(props.steps ? { incrs: props.steps } : {}),
        values: (_, splits) => splits.map((value) => props.show(value)),
      },
    ],
    series: [{}, { stroke: ink, width: 1.5, fill: `${ink}22`, spanGaps: false, points: { show: false } }],
  };
}

export function Plot(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const reading = useRef<HTMLElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shade = theme.value;
  /** The value under the cursor, or the newest. Set past Preact: it changes with every move of the mouse. */
  const read = (at: number | null) => {
    const { values, show } = latest.current;
    const value = at === null ? values.findLast((known) => known !== null) : values[at];
    if (reading.current) reading.current.textContent = value === null || value === undefined ? "" : show(value);
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: a theme is a new plot; data are set below.
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const { times, values } = latest.current;
    const drawn = new uPlot(optionsFor(latest.current, element.clientWidth || 300), [times, values], element);
    drawn.hooks.setCursor = [() => read(drawn.cursor.idx ?? null)];
    plot.current = drawn;
    const unwatch = watchWidth(element, (width) => drawn.setSize({ width, height: latest.current.height }));
    return () => {
      unwatch();
      drawn.destroy();
      plot.current = null;
    };
  }, [shade, props.sync]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `read` looks at the latest props.
  useEffect(() => {
    plot.current?.setData([props.times, props.values]);
    read(null);
  }, [props.times, props.values]);
  return (
    <figure class="plot">
      <figcaption>
        {props.title} <strong ref={reading} />
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title} over time`} />
    </figure>
  );
}
