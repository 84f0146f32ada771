// What is under the pointer, in words.

import { colourOfJob } from "../../logic/colours";
import { duration, moment } from "../../logic/format";
import type { Bar } from "../../logic/lanes";
import { nameOf, Swatch } from "../../parts/job";

export interface TipAt {
  bar: Bar;
  x: number;
  y: number;
}

const HALF_WIDTH = 130;

export function Tip(props: { at: TipAt; now: number }) {
  const { bar, x, y } = props.at;
  const { source } = bar;
  const until = source.finish === null ? props.now : bar.finish;
  return (
    <div
      class="tip"
      role="status"
      style={{ left: `max(0px, min(100% - ${2 * HALF_WIDTH}px, ${x - HALF_WIDTH}px))`, top: `${y + 18}px` }}
    >
      <strong>
        <Swatch colour={colourOfJob(source.job)} />
        <bdi>{nameOf({ id: source.job, name: source.name })}</bdi>
      </strong>
      <span>
        job {source.job} · <bdi>{source.user}</bdi> · {source.finish === null ? source.state : (source.end ?? source.state)}
      </span>
      <span>
        {moment(source.start, props.now)} – {source.finish === null ? "now" : moment(source.finish, props.now)} ·{" "}
        {duration((until - bar.start) / 1000)}
      </span>
      <span>
        {source.gpus.length} {source.gpus.length === 1 ? "GPU" : "GPUs"}
      </span>
    </div>
  );
}
