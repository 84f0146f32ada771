// Which stretch of the past: the last so long, or between two moments.

import { useState } from "preact/hooks";
import { toField } from "../../logic/format";
import { route } from "../../route";

export interface TimeRange {
  /** Milliseconds up to the present, if `to` is null. */
  span: number;
  from: number | null;
  to: number | null;
}

const HOUR = 3_600_000;
const SPANS: [string, number][] = [
  ["1 h", HOUR],
  ["24 h", 24 * HOUR],
  ["7 d", 7 * 24 * HOUR],
  ["30 d", 30 * 24 * HOUR],
  ["1 y", 365 * 24 * HOUR],
];

export function rangeFromAddress(): TimeRange {
  const query = route.peek().query;
  const [from, to] = [Date.parse(query.get("from") ?? ""), Date.parse(query.get("to") ?? "")];
  if (from < to) return { span: to - from, from, to };
  return { span: Number(query.get("span")) || 24 * HOUR, from: null, to: null };
}

export function Range(props: { range: TimeRange; onChange(range: TimeRange): void }) {
  const { range } = props;
  const present = Date.now();
  const [from, setFrom] = useState(toField(range.from ?? present - range.span));
  const [to, setTo] = useState(toField(range.to ?? present));
  const isOrdered = Date.parse(from) < Date.parse(to);
  const apply = (event: Event) => {
    event.preventDefault();
    const [first, last] = [Date.parse(from), Date.parse(to)];
    if (first < last) props.onChange({ span: last - first, from: first, to: last });
  };
  return (
    <form class="controls" onSubmit={apply}>
      <span class="switch" role="group" aria-label="how far back">
        {SPANS.map(([label, span]) => (
          <button
            key={label}
            type="button"
            aria-pressed={range.to === null && range.span === span}
            onClick={() => {
              setFrom(toField(Date.now() - span));
              setTo(toField(Date.now()));
              props.onChange({ span, from: null, to: null });
            }}
          >
            {label}
          </button>
        ))}
      </span>
      <label>
        from <input type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
      </label>
      <label>
        to{" "}
        <input type="datetime-local" value={to} onInput={(event) => setTo(event.currentTarget.value)} aria-invalid={!isOrdered} />
      </label>
      <button type="submit" disabled={!isOrdered} aria-pressed={range.to !== null}>
        show
      </button>
    </form>
  );
}
