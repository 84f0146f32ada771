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

/** The part of the view that lies to the right of now: a rim, or more where something is expected there. */
export const RIM = 0.04;
export const RIM_WITH_PLANS = 0.3;

/** The last stretch of time with room for what comes. */
export function upToNow(span: number, now: number, rim = RIM): View {
  return { from: now - span * (1 - rim), to: now + span * rim };
}

/** A view for a queue that is younger than the view would be: from its first start on. Null where it is not. */
export function fittedTo(firstStart: number, lastPlanned: number, span: number, now: number): View | null {
  const age = now - firstStart;
  if (!(age > 0) || age > span * 0.6) return null;
  const past = Math.max(age * 1.08, 30_000);
  const future = Math.max(past * (RIM_WITH_PLANS / (1 - RIM_WITH_PLANS)), Math.min(lastPlanned - now, past * 3 + 120_000) * 1.08);
  return { from: now - past, to: now + future };
}
