// Memory, utilisation and power of one job over time.

import { useMemo } from "preact/hooks";
import { call } from "../../api/client";
import { isOver, type Job, type SamplePoint, type Samples } from "../../api/contract";
import { now } from "../../live/store";
import { mib } from "../../logic/format";
import { useAnswer } from "../../parts/answer";
import { Empty, Loading, Trouble } from "../../parts/notice";
import { Plot } from "../../parts/plot";

const EVERY_MS = 5_000;
/** More points than pixels help nobody. */
const POINTS_MAX = 1_200;

const MEMORY_STEPS = Array.from({ length: 14 }, (_, power) => 128 * 2 ** power);

/** Every so many points, so that no more are left than can be seen; the last is always there. */
export function thin(points: SamplePoint[]): SamplePoint[] {
  const step = Math.ceil(points.length / POINTS_MAX);
  return step <= 1 ? points : points.filter((_, at) => at % step === 0 || at === points.length - 1);
}

export function Curves(props: { job: Job }) {
  const { job } = props;
  const tick = isOver(job.state) ? job.state : Math.floor(now.value / EVERY_MS);
  const answer = useAnswer<Samples>(String(job.id), (stop) => call(`jobs/${job.id}/samples`, { signal: stop }), tick);
  const points = useMemo(() => thin(answer.value?.points ?? []), [answer.value]);
  const times = useMemo(() => points.map((point) => Date.parse(point.at) / 1000), [points]);
  const memory = useMemo(() => points.map((point) => point.memory_mib), [points]);
  const use = useMemo(() => points.map((point) => point.utilisation_percent), [points]);
  const power = useMemo(() => points.map((point) => point.power_watts), [points]);
  if (!answer.value) {
    return answer.problem ? (
      <Trouble what="its curves" problem={answer.problem} again={answer.again} />
    ) : (
      <Loading what="its curves" />
    );
  }
  if (points.length < 2)
    return <Empty>{isOver(job.state) ? "It ended before anything was measured." : "Nothing has been measured of it yet."}</Empty>;
  const sync = `job ${job.id}`;
  return (
    <section class="curves" aria-label="curves">
      <Plot
        title="utilisation"
        times={times}
        values={use}
        max={100}
        ink="use"
        sync={sync}
        height={150}
        show={(value) => `${Math.round(value)} %`}
      />
      <Plot title="memory" times={times} values={memory} ink="memory" steps={MEMORY_STEPS} sync={sync} height={150} show={mib} />
      <Plot
        title="power"
        times={times}
        values={power}
        ink="power"
        sync={sync}
        height={150}
        show={(value) => `${Math.round(value)} W`}
      />
    </section>
  );
}
