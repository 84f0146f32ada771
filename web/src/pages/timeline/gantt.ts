// The Gantt chart on its canvas: draws what is in view, at most once a frame, and says what is under the pointer.

import { type Bar, cull, hit, type Row } from "../../logic/lanes";
import type { Plan, PlanLane } from "../../logic/planned";
import { type Tick, ticks } from "../../logic/ticks";
import { spanOf, type View } from "../../logic/view";
import { contextFor } from "../../parts/canvas";
import { colour } from "../../theme";
import { Strip } from "./strip";

export const AXIS_HEIGHT = 30;
const LANE_HEIGHT = 22;
/** A machine with few GPUs has room for higher bars. */
const LANE_HEIGHT_FEW = 30;
const FEW = 8;
const LANE_HEIGHT_MIN = 8;
const ROW_HEIGHT_MAX = 104;
const ROW_PADDING = 6;
const LABEL_WIDTH_MIN = 34;
/** About the width of a letter; cutting a name by it costs less than a clip. */
const LETTER_WIDTH = 6;

export interface Palette {
  paper: string;
  panel: string;
  ink: string;
  quiet: string;
  grid: string;
  axis: string;
  accent: string;
  bad: string;
  away: string;
}

/** The colours of the theme in force. */
export const paletteNow = (): Palette => ({
  paper: colour("paper"),
  panel: colour("panel"),
  ink: colour("ink"),
  quiet: colour("quiet"),
  grid: colour("grid"),
  axis: colour("axis"),
  accent: colour("accent"),
  bad: colour("bad"),
  away: colour("axis"),
});

export interface Paint {
  fill(bar: Bar): string;
  ink(fill: string): string;
  label(bar: Bar): string;
  planned(plan: Plan): string;
}

/** Narrower than this, a bar is some pixels of a strip. */
const NARROW = 3;

/** A bar to be drawn by itself, and where. */
interface Wide {
  left: number;
  right: number;
  bar: Bar;
  top: number;
  height: number;
}

interface Place {
  top: number;
  height: number;
  laneHeight: number;
}

/** Where each row is: as high as its lanes need, within reason. */
export function placesOf(rows: readonly Row[]): Place[] {
  let top = AXIS_HEIGHT;
  return rows.map((row) => {
    const lanes = row.lanes.length;
    const laneHeight = Math.max(
      LANE_HEIGHT_MIN,
      Math.min(rows.length <= FEW ? LANE_HEIGHT_FEW : LANE_HEIGHT, (ROW_HEIGHT_MAX - 2 * ROW_PADDING) / lanes),
    );
    const height = lanes * laneHeight + 2 * ROW_PADDING;
    const place = { top, height, laneHeight };
    top += height;
    return place;
  });
}

export class Gantt {
  view: View = { from: 0, to: 1 };
  now = Date.now();
  hovered: Bar | null = null;
  /** Marks of the axis, where they are not those of the clock. */
  marks: ((from: number, to: number, width: number) => Tick[]) | null = null;
  private plans: ReadonlyMap<string, PlanLane[]> = new Map();
  private rows: Row[] = [];
  private places: Place[] = [];
  private width = 0;
  private frame = 0;
  private readonly strip = new Strip();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private palette: Palette,
    private paint: Paint,
  ) {}

  get height(): number {
    const last = this.places[this.places.length - 1];
    return last ? last.top + last.height + 1 : AXIS_HEIGHT + 40;
  }

  get pixelsPerMs(): number {
    return this.width / spanOf(this.view);
  }

  setRows(rows: Row[]): void {
    this.rows = rows;
    this.places = placesOf(rows);
    this.redraw();
  }

  setPlans(plans: ReadonlyMap<string, PlanLane[]>): void {
    this.plans = plans;
    this.redraw();
  }

  setLook(palette: Palette, paint: Paint): void {
    this.palette = palette;
    this.paint = paint;
    this.redraw();
  }

  setWidth(width: number): void {
    this.width = width;
    this.redraw();
  }

  redraw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  /** The bar at a point of the canvas. */
  at(x: number, y: number): Bar | null {
    const moment = this.view.from + x / this.pixelsPerMs;
    for (const [index, place] of this.places.entries()) {
      const row = this.rows[index];
      const inside = y - place.top - ROW_PADDING;
      if (!row || inside < 0 || inside >= place.height - 2 * ROW_PADDING) continue;
      const lane = row.lanes[Math.floor(inside / place.laneHeight)];
      return lane ? hit(lane, moment, 3 / this.pixelsPerMs, this.now) : null;
    }
    return null;
  }

  /** What is expected at a point of the canvas. */
  planAt(x: number, y: number): Plan | null {
    const moment = this.view.from + x / this.pixelsPerMs;
    if (moment < this.now) return null;
    for (const [index, place] of this.places.entries()) {
      const lanes = this.plans.get(this.rows[index]?.gpu.uuid ?? "") ?? [];
      const [inside, height] = [y - place.top - ROW_PADDING, place.height - 2 * ROW_PADDING];
      if (inside < 0 || inside >= height) continue;
      const lane = lanes[Math.floor((inside / height) * lanes.length)];
      return lane?.plans.find((plan) => plan.start <= moment && moment <= plan.finish) ?? null;
    }
    return null;
  }

  private draw(): void {
    const context = contextFor(this.canvas, this.width, this.height);
    if (!context || this.width <= 0) return;
    context.fillStyle = this.palette.paper;
    context.fillRect(0, 0, this.width, this.height);
    this.drawRows(context);
    this.drawAxis(context);
    this.drawBars(context);
    this.drawPlans(context);
    this.drawNow(context);
  }

  private drawRows(context: CanvasRenderingContext2D): void {
    for (const [index, place] of this.places.entries()) {
      if (index % 2 === 0) {
        context.fillStyle = this.palette.panel;
        context.fillRect(0, place.top, this.width, place.height);
      }
    }
    // What has not happened yet.
    const x = (this.now - this.view.from) * this.pixelsPerMs;
    if (x < this.width) {
      context.fillStyle = this.palette.away;
      context.globalAlpha = 0.16;
      context.fillRect(Math.max(0, x), AXIS_HEIGHT, this.width - Math.max(0, x), this.height - AXIS_HEIGHT);
      context.globalAlpha = 1;
    }
  }

  private drawAxis(context: CanvasRenderingContext2D): void {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const tick of (this.marks ?? ticks)(this.view.from, this.view.to, this.width)) {
      const x = Math.round((tick.at - this.view.from) * this.pixelsPerMs) + 0.5;
      context.strokeStyle = tick.isDay ? this.palette.axis : this.palette.grid;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, tick.isDay ? 4 : AXIS_HEIGHT - 8);
      context.lineTo(x, this.height);
      context.stroke();
      context.fillStyle = tick.isDay ? this.palette.ink : this.palette.quiet;
      // A label that is cut at the edge says another time.
      if (x + 4 + context.measureText(tick.label).width <= this.width) context.fillText(tick.label, x + 4, AXIS_HEIGHT / 2 - 1);
    }
  }

  /** Narrow bars go into a strip of pixels, one row a lane, which costs the same however many they are; only wide ones are drawn one by one. */
  private drawBars(context: CanvasRenderingContext2D): void {
    const ratio = this.canvas.width / this.width;
    const strip = this.strip.begin(
      this.canvas.width,
      this.rows.reduce((sum, row) => sum + row.lanes.length, 0),
    );
    const wide: Wide[] = [];
    let line = 0;
    for (const [index, row] of this.rows.entries()) {
      const place = this.places[index] as Place;
      const height = place.laneHeight - (place.laneHeight > 12 ? 2 : 1);
      for (const [number, lane] of row.lanes.entries()) {
        const top = place.top + ROW_PADDING + number * place.laneHeight;
        cull(lane, this.view.from, this.view.to, this.now, this.pixelsPerMs, (left, right, bar, count) => {
          if (right - left >= NARROW) wide.push({ left, right, bar, top, height });
          else strip.paint(line, left * ratio, right * ratio, count > 1 ? this.palette.quiet : this.paint.fill(bar));
        });
        line += 1;
      }
    }
    line = 0;
    const picture = strip.end();
    context.imageSmoothingEnabled = false;
    for (const [index, row] of this.rows.entries()) {
      const place = this.places[index] as Place;
      const height = place.laneHeight - (place.laneHeight > 12 ? 2 : 1);
      for (let number = 0; number < row.lanes.length; number += 1) {
        const top = place.top + ROW_PADDING + number * place.laneHeight;
        if (strip.has(line)) context.drawImage(picture, 0, line, picture.width, 1, 0, top, this.width, height);
        line += 1;
      }
    }
    for (const bar of wide) this.drawWide(context, bar);
  }

  private drawWide(context: CanvasRenderingContext2D, { left, right, bar, top, height }: Wide): void {
    const fill = this.paint.fill(bar);
    const width = right - left;
    context.fillStyle = fill;
    // A hair's breadth between neighbours keeps them apart where there is room for it.
    context.fillRect(left, top, width > 4 ? width - 1 : width, height);
    if (width > 6) this.drawDetail(context, left, right, bar, top, height, fill);
  }

  /** The name, how it ended, and whether the pointer is on it. */
  private drawDetail(
    context: CanvasRenderingContext2D,
    left: number,
    right: number,
    bar: Bar,
    top: number,
    height: number,
    fill: string,
  ): void {
    const width = right - left - 1;
    if (bar.source.end === "failed" || bar.source.end === "lost") {
      context.fillStyle = this.palette.bad;
      context.fillRect(right - 4, top, 3, height);
    } else if (bar.source.end === "preempted" || bar.source.end === "evicted") {
      context.fillStyle = this.palette.paper;
      context.fillRect(right - 4, top, 1.5, height);
    }
    if (width > LABEL_WIDTH_MIN && height >= 12) {
      const label = this.paint.label(bar);
      const letters = Math.floor((width - 12) / LETTER_WIDTH);
      context.fillStyle = this.paint.ink(fill);
      const shown = label.length > letters ? `${label.slice(0, Math.max(1, letters - 1))}…` : label;
      context.fillText(shown, left + 6, top + height / 2 + 0.5, width - 10);
    }
    if (this.hovered?.source.job === bar.source.job) {
      context.strokeStyle = this.palette.ink;
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, Math.max(1, width - 2), height - 2);
    }
  }

  /** Pale bars with a dashed rim, to the right of now. */
  private drawPlans(context: CanvasRenderingContext2D): void {
    const present = (this.now - this.view.from) * this.pixelsPerMs;
    if (present > this.width || this.plans.size === 0) return;
    for (const [index, place] of this.places.entries()) {
      const lanes = this.plans.get(this.rows[index]?.gpu.uuid ?? "") ?? [];
      const laneHeight = (place.height - 2 * ROW_PADDING) / Math.max(1, lanes.length);
      for (const [number, lane] of lanes.entries()) {
        const top = place.top + ROW_PADDING + number * laneHeight;
        for (const plan of lane.plans) this.drawPlan(context, plan, present, top, laneHeight - (laneHeight > 12 ? 2 : 1));
      }
    }
  }

  private drawPlan(context: CanvasRenderingContext2D, plan: Plan, present: number, top: number, height: number): void {
    const left = Math.max(present, (plan.start - this.view.from) * this.pixelsPerMs);
    const right = Math.min(this.width, (plan.finish - this.view.from) * this.pixelsPerMs);
    if (right - left < 1) return;
    const fill = this.paint.planned(plan);
    context.globalAlpha = plan.kind === "runs" ? 0.3 : 0.2;
    context.fillStyle = fill;
    context.fillRect(left, top, right - left, height);
    context.globalAlpha = 1;
    if (plan.kind === "waits" && right - left > 4) {
      context.strokeStyle = fill;
      context.lineWidth = 1.5;
      context.setLineDash([4, 3]);
      context.strokeRect(left + 1, top + 1, right - left - 2, Math.max(1, height - 2));
      context.setLineDash([]);
    }
    const letters = Math.floor((right - left - 12) / LETTER_WIDTH);
    if (plan.kind === "waits" && right - left > LABEL_WIDTH_MIN && height >= 12) {
      const label = plan.name || `job ${plan.job}`;
      context.fillStyle = this.palette.ink;
      context.fillText(
        label.length > letters ? `${label.slice(0, Math.max(1, letters - 1))}…` : label,
        left + 6,
        top + height / 2 + 0.5,
      );
    }
  }

  private drawNow(context: CanvasRenderingContext2D): void {
    const x = (this.now - this.view.from) * this.pixelsPerMs;
    if (x < 0 || x > this.width) return;
    context.fillStyle = this.palette.accent;
    context.fillRect(Math.round(x) - 0.75, AXIS_HEIGHT - 8, 1.5, this.height);
    context.beginPath();
    context.arc(Math.round(x), AXIS_HEIGHT - 8, 3.5, 0, Math.PI * 2);
    context.fill();
  }
}
