// Wheel, pinch, drag and keys, as changes of the view.

import { pan, spanOf, type View, zoom } from "../../logic/view";

export interface Moves {
  view(): View;
  width(): number;
  /** What keys zoom round, from 0 to 1. */
  anchor(): number;
  /** A new view; the chart no longer follows the present unless that is still in it. */
  change(view: View): void;
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number): void;
  home(): void;
}

/** Less than this is a click, not a drag. */
const DRAG_PIXELS = 4;
const KEY_ZOOM = 1.35;
const KEY_PAN = 0.15;

export function followGestures(canvas: HTMLCanvasElement, moves: Moves): () => void {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  const pointers = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  const point = (event: PointerEvent | WheelEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const msPerPixel = () => spanOf(moves.view()) / moves.width();

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const scale = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const sideways = event.shiftKey ? event.deltaX + event.deltaY : event.deltaX;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        moves.change(pan(moves.view(), sideways * scale * msPerPixel()));
      } else {
        // A pinch on a touchpad comes as a wheel with small steps and the control key.
        const strength = event.ctrlKey ? 0.01 : 0.0018;
        moves.change(zoom(moves.view(), Math.exp(event.deltaY * scale * strength), point(event).x / moves.width()));
      }
    },
    { ...options, passive: false },
  );

  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0) return;
      if (pointers.size === 0) travelled = 0;
      pointers.set(event.pointerId, point(event));
      canvas.setPointerCapture(event.pointerId);
    },
    options,
  );

  canvas.addEventListener(
    "pointermove",
    (event) => {
      const here = point(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        moves.hover(here.x, here.y);
        return;
      }
      travelled += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const spread = (a: { x: number }, b: { x: number }) => Math.max(12, Math.abs(a.x - b.x));
        const middle = (here.x + other.x) / 2;
        const moved = pan(moves.view(), (-(here.x - before.x) / 2) * msPerPixel());
        moves.change(zoom(moved, spread(before, other) / spread(here, other), middle / moves.width()));
      } else if (travelled > DRAG_PIXELS) {
        canvas.classList.add("dragged");
        moves.leave();
        moves.change(pan(moves.view(), -(here.x - before.x) * msPerPixel()));
      }
      pointers.set(event.pointerId, here);
    },
    options,
  );

  const lift = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("dragged");
    if (event.type === "pointerup" && pointers.size === 0 && travelled <= DRAG_PIXELS) {
      const { x, y } = point(event);
      moves.click(x, y);
    }
  };
  canvas.addEventListener("pointerup", lift, options);
  canvas.addEventListener("pointercancel", lift, options);
  canvas.addEventListener("pointerleave", () => moves.leave(), options);

  canvas.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const span = spanOf(moves.view());
      if (event.key === "+" || event.key === "=") moves.change(zoom(moves.view(), 1 / KEY_ZOOM, moves.anchor()));
      else if (event.key === "-" || event.key === "_") moves.change(zoom(moves.view(), KEY_ZOOM, moves.anchor()));
      else if (event.key === "ArrowLeft") moves.change(pan(moves.view(), -span * KEY_PAN));
      else if (event.key === "ArrowRight") moves.change(pan(moves.view(), span * KEY_PAN));
      else if (event.key === "0" || event.key === "Home") moves.home();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
    options,
  );
  return () => stop.abort();
}
