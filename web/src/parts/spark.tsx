// A small live line without axes: the last two minutes of one gauge, the newest at the right edge.

import { useEffect, useRef } from "preact/hooks";
import { looks } from "../live/store";
import type { Ring } from "../logic/ring";
import { colour, theme } from "../theme";
import { contextFor, watchWidth } from "./canvas";

interface Props {
  ring: Ring;
  max: number;
  label: string;
  height: number;
  /** Name of the theme's colour. */
  ink: string;
}

function draw(canvas: HTMLCanvasElement, props: Props): void {
  const [width, height] = [canvas.clientWidth, props.height];
  const context = contextFor(canvas, width, height);
  if (!context) return;
  const { ring, max } = props;
  context.clearRect(0, 0, width, height);
  const x = (index: number) => width - 1 - ((ring.size - 1 - index) / (ring.capacity - 1)) * (width - 1);
  const y = (value: number) => height - 1.5 - (Math.min(value, max) / max) * (height - 3);
  const ink = colour(props.ink);
  const line = new Path2D();
  const area = new Path2D();
  let first = -1;
  for (let i = 0; i < ring.size; i += 1) {
    const value = ring.at(i);
    if (Number.isNaN(value)) continue;
    if (first < 0) {
      first = i;
      line.moveTo(x(i), y(value));
      area.moveTo(x(i), height);
    } else {
      line.lineTo(x(i), y(value));
    }
    area.lineTo(x(i), y(value));
  }
  if (first < 0) return;
  area.lineTo(x(ring.size - 1), height);
  context.fillStyle = ink;
  context.globalAlpha = 0.13;
  context.fill(area);
  context.globalAlpha = 1;
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.stroke(line);
}

export function Spark(props: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [look, shade] = [looks.value, theme.value];
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn again with every look and theme.
  useEffect(() => {
    if (canvas.current) draw(canvas.current, latest.current);
  }, [look, shade, props.ring]);
  useEffect(() => {
    const element = canvas.current;
    return element ? watchWidth(element, () => draw(element, latest.current)) : undefined;
  }, []);
  return <canvas ref={canvas} class="spark" role="img" aria-label={props.label} style={{ height: `${props.height}px` }} />;
}
