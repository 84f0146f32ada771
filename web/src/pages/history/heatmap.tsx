// GPU × time: above, how much of each GPU was given out; below, how much of it was really used. A bright strip over a pale one is waste.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Heatmap } from "../../api/contract";
import { status } from "../../live/store";
import { clockOf, dayOf, percent, withUnit } from "../../logic/format";
import { ticks } from "../../logic/ticks";
import { contextFor, watchWidth } from "../../parts/canvas";
import { BadgeOf, isVirtual } from "../../parts/virtual";
import { colour, theme } from "../../theme";

const ROW = 30;
const STRIP = 12;
const AXIS = 22;

interface Cell {
  gpu: number;
  bucket: number;
  x: number;
  y: number;
}

function draw(canvas: HTMLCanvasElement, heatmap: Heatmap): void {
  const width = canvas.clientWidth;
  const height = heatmap.gpus.length * ROW + AXIS;
  const context = contextFor(canvas, width, height);
  const buckets = heatmap.gpus[0]?.allocated.length ?? 0;
  if (!context || buckets === 0) return;
  context.clearRect(0, 0, width, height);
  const [allocated, used, none] = [colour("allocated"), colour("use"), colour("cell")];
  const edge = (bucket: number) => Math.round((bucket / buckets) * width);
  const strip = (values: (number | null)[], top: number, ink: string) => {
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      const value = values[bucket];
      const [left, right] = [edge(bucket), edge(bucket + 1)];
      const gap = right - left > 5 ? 1 : 0;
      if (value === null || value === undefined) continue;
      context.fillStyle = none;
      context.fillRect(left, top, right - left - gap, STRIP);
      if (value <= 0) continue;
      context.globalAlpha = 0.18 + 0.82 * Math.min(1, value);
      context.fillStyle = ink;
      context.fillRect(left, top, right - left - gap, STRIP);
      context.globalAlpha = 1;
    }
  };
  heatmap.gpus.forEach((gpu, at) => {
    strip(gpu.allocated, at * ROW + 2, allocated);
    strip(gpu.used, at * ROW + 2 + STRIP + 1, used);
  });
  const [from, to] = [Date.parse(heatmap.from), Date.parse(heatmap.to)];
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("quiet");
  context.textBaseline = "middle";
  for (const tick of ticks(from, to, width)) {
    const x = ((tick.at - from) / (to - from)) * width;
    context.fillRect(Math.round(x), height - AXIS, 1, 4);
    const wide = context.measureText(tick.label).width;
    if (x + wide < width) context.fillText(tick.label, x + 4, height - AXIS / 2 + 1);
  }
}

function textOf(heatmap: Heatmap, cell: Cell): string[] {
  const gpu = heatmap.gpus[cell.gpu];
  if (!gpu) return [];
  const at = new Date(Date.parse(heatmap.from) + cell.bucket * heatmap.bucket_seconds * 1000);
  const watts = gpu.power_watts[cell.bucket];
  return [
    `GPU ${gpu.index} · ${dayOf(at)} ${clockOf(at)}`,
    `allocated ${percent(gpu.allocated[cell.bucket])}`,
    `used ${percent(gpu.used[cell.bucket])}`,
    watts === null || watts === undefined ? "" : withUnit(Math.round(watts), "W"),
  ].filter(Boolean);
}

const mean = (values: (number | null)[]) => {
  const known = values.filter((value): value is number => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
};

export function HeatmapView(props: { heatmap: Heatmap }) {
  const { heatmap } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(heatmap);
  latest.current = heatmap;
  const [cell, setCell] = useState<Cell | null>(null);
  const shade = theme.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn again with every theme.
  useEffect(() => {
    if (canvas.current) draw(canvas.current, heatmap);
  }, [heatmap, shade]);
  useEffect(() => {
    const element = canvas.current;
    return element ? watchWidth(element, () => draw(element, latest.current)) : undefined;
  }, []);
  const hover = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    const buckets = heatmap.gpus[0]?.allocated.length ?? 0;
    if (!box) return;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const gpu = Math.floor(y / ROW);
    setCell(gpu < heatmap.gpus.length ? { gpu, bucket: Math.min(buckets - 1, Math.floor((x / box.width) * buckets)), x, y } : null);
  };
  if (heatmap.gpus.length === 0) return null;
  return (
    <section class="panel heat" aria-label="GPUs over time">
      <div class="section-head">
        <h2>Allocated and used</h2>
        <p class="legend">
          <span>
            <i class="allocated" /> allocated
          </span>
          <span>
            <i class="used" /> {status.value?.gpus.some(isVirtual) ? "used, as modelled" : "really used"}
          </span>
        </p>
      </div>
      <div class="gantt">
        <ol class="heat-labels">
          {heatmap.gpus.map((gpu) => (
            <li key={gpu.uuid} style={{ height: `${ROW}px` }}>
              <strong>
                GPU {gpu.index} <BadgeOf uuid={gpu.uuid} />
              </strong>
              <span class="unseen">
                {" "}
                allocated {percent(mean(gpu.allocated))}, used {percent(mean(gpu.used))} on average
              </span>
            </li>
          ))}
        </ol>
        <div class="gantt-canvas">
          <canvas
            ref={canvas}
            role="img"
            aria-label="heat map of allocation and use; averages are beside it"
            style={{ height: `${heatmap.gpus.length * ROW + AXIS}px` }}
            onPointerMove={hover}
            onPointerLeave={() => setCell(null)}
          />
          {cell && (
            <div class="tip small" style={{ left: `max(0px, min(100% - 170px, ${cell.x - 85}px))`, top: `${cell.y + 18}px` }}>
              {textOf(heatmap, cell).map((line) => (
                <span key={line}>{line}</span>
              ))}
            </div>
          )}
        </div>
      </div>
    </section>
  );
}
