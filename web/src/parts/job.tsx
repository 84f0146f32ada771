// A job wherever it is named: its colour, its name as text that cannot leave its place, its state in words.

import type { Job, JobState } from "../api/contract";
import { colourOfJob } from "../logic/colours";
import { hrefOf } from "../route";

export const Swatch = (props: { colour: string }) => <i class="swatch" aria-hidden="true" style={{ background: props.colour }} />;

export const nameOf = (job: { name?: string | null; id: number }) => job.name || `job ${job.id}`;

export function JobLink(props: { id: number; name?: string | null }) {
  return (
    <a class="job-link" href={hrefOf("job", props.id)}>
      <Swatch colour={colourOfJob(props.id)} />
      <bdi>{nameOf(props)}</bdi>
    </a>
  );
}

/** Shapes, so that states differ without colours. */
const SIGNS: Record<JobState, string> = {
  waiting: "◌",
  held: "‖",
  starting: "◔",
  running: "●",
  stopping: "◕",
  done: "✓",
  failed: "✕",
  cancelled: "⊘",
  lost: "?",
};

export function StateMark(props: { state: JobState }) {
  return (
    <span class={`state state-${props.state}`}>
      <span aria-hidden="true">{SIGNS[props.state]}</span> {props.state}
    </span>
  );
}

/** What a job asks for, or what it has. */
export function gpusOf(job: Job): string {
  if (job.gpu_indices && job.gpu_indices.length > 0) return job.gpu_indices.join(", ");
  if (job.gpus_requested === 0) return "none";
  return `${job.gpus_requested} × ${job.gpu_types.length > 0 ? job.gpu_types.join("/") : "any"}`;
}
