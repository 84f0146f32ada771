// The part of time that is in view, and how it is moved.

export interface View {
  from: number;
  to: number;
}

export const SPAN_MIN_MS = 5_000;
export const SPAN_MAX_MS = 120 * 86_400_000;

export const spanOf = (view: View) => view.to - view.from;

/** Closer or further; the moment at `anchor` (0 left, 1 right) stays where it is. */
export function zoom(view: View, factor: number, anchor: number): View {
  const span = Math.min(SPAN_MAX_MS, Math.max(SPAN_MIN_MS, spanOf(view) * factor));
  const fixed = view.from + spanOf(view) * anchor;
  return { from: fixed - span * anchor, to: fixed + span * (1 - anchor) };
}

export function pan(view: View, ms: number): View {
  return { from: view.from + ms, to: view.to + ms };
}

/** The last stretch of time with room for what comes. */
export function upToNow(span: number, now: number): View {
  return { from: now - span * 0.96, to: now + span * 0.04 };
}
