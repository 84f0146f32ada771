// What is under the pointer, in words.

import { colourOfJob } from "../../logic/colours";
import { duration, moment } from "../../logic/format";
import type { Bar } from "../../logic/lanes";
import type { Plan } from "../../logic/planned";
import { nameOf, Swatch } from "../../parts/job";

export type TipAt = { x: number; y: number } & ({ bar: Bar; plan?: undefined } | { plan: Plan; bar?: undefined });

const HALF_WIDTH = 130;

const gpuWords = (count: number) => `${count} ${count === 1 ? "GPU" : "GPUs"}`;

function BarWords(props: { bar: Bar; now: number }) {
  const { source, start, finish } = props.bar;
  const until = source.finish === null ? props.now : finish;
  return (
    <>
      <span>
        job {source.job} · <bdi>{source.user}</bdi> · {source.finish === null ? source.state : (source.end ?? source.state)}
      </span>
      <span>
        {moment(source.start, props.now)} – {source.finish === null ? "now" : moment(source.finish, props.now)} ·{" "}
        {duration((until - start) / 1000)}
      </span>
      <span>{gpuWords(source.gpus.length)}</span>
    </>
  );
}

function PlanWords(props: { plan: Plan; now: number }) {
  const { plan, now } = props;
  const end = plan.isEndKnown ? `expected to end ${moment(plan.finish, now)}` : "its end is not known";
  return (
    <>
      <span>
        job {plan.job} · <bdi>{plan.user}</bdi> · {plan.kind === "waits" ? "waiting" : "running"}
      </span>
      {plan.kind === "waits" && (
        <span>
          expected to start {moment(plan.start, now)}, in {duration(Math.max(0, Math.round((plan.start - now) / 1000)))}
        </span>
      )}
      <span>{end}</span>
      <span>{gpuWords(plan.gpus.length)}</span>
    </>
  );
}

export function Tip(props: { at: TipAt; now: number }) {
  const { bar, plan, x, y } = props.at;
  const named = bar ? { id: bar.source.job, name: bar.source.name } : { id: plan.job, name: plan.name };
  return (
    <div
      class="tip"
      role="status"
      style={{ left: `max(0px, min(100% - ${2 * HALF_WIDTH}px, ${x - HALF_WIDTH}px))`, top: `${y + 18}px` }}
    >
      <strong>
        <Swatch colour={colourOfJob(named.id)} />
        <bdi>{nameOf(named)}</bdi>
      </strong>
      {bar ? <BarWords bar={bar} now={props.now} /> : <PlanWords plan={plan} now={props.now} />}
    </div>
  );
}
