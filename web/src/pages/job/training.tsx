// How far a training is: from what it writes, and from the steps that it told the daemon.

import type { Job } from "../../api/contract";
import { number } from "../../logic/format";
import { hasProgress, partDone, type TrainingProgress } from "../../logic/progress";

const of = (value: number | null, total: number | null) =>
  value === null ? null : `${number(value)}${total === null ? "" : ` of ${number(total)}`}`;

export function Training(props: { job: Job; progress: TrainingProgress }) {
  const { job, progress } = props;
  const told = job.steps_done ?? null;
  if (!hasProgress(progress) && told === null) return null;
  const part = partDone(progress);
  const loss = progress.loss === null ? null : Number.isNaN(progress.loss) ? "not a number" : number(progress.loss);
  const facts: [string, string | null][] = [
    ["epoch", of(progress.epoch, progress.epochs)],
    ["step", of(progress.step, progress.steps)],
    ["loss", loss],
    ["steps a second", progress.rate === null ? null : number(progress.rate)],
    ["steps saved", told === null ? null : number(told)],
  ];
  return (
    <section class="panel training" aria-label="training progress">
      <div class="section-head">
        <h2>Training</h2>
        <p class="quiet-text">{hasProgress(progress) ? "read from the log" : "reported by the job"}</p>
      </div>
      <dl class="training-tiles">
        {facts
          .filter(([, value]) => value !== null)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class={name === "loss" && value === "not a number" ? "bad-text" : ""}>{value}</dd>
            </div>
          ))}
      </dl>
      {part !== null && (
        <div
          class="meter"
          role="progressbar"
          aria-label="training progress"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(part * 100)}
        >
          <i style={{ width: `${part * 100}%` }} />
        </div>
      )}
    </section>
  );
}
