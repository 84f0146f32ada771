// One GPU: what it is, how busy it is, whose its memory is.

import type { Gpu, Job } from "../../api/contract";
import { gaugesOf, jobs, now } from "../../live/store";
import { colourOfJob } from "../../logic/colours";
import { brief, mib, secondsBetween, UNKNOWN } from "../../logic/format";
import { JobLink } from "../../parts/job";
import { Spark } from "../../parts/spark";
import { isVirtual, VirtualBadge } from "../../parts/virtual";
import { type Part, partsOf } from "./memory";

const STATE_WORDS: Record<Gpu["state"], string> = {
  free: "free",
  shared: "has room",
  full: "in use",
  stranger: "stranger on it",
  drained: "drained",
  lost: "lost",
};

function MemoryBar(props: { gpu: Gpu; parts: Part[] }) {
  const { gpu, parts } = props;
  const spoken = parts.map((part) => `${part.label} ${mib(part.mib)}`).join(", ") || "nothing in use";
  return (
    <div class="memory" role="img" aria-label={`memory: ${spoken}; ${mib(gpu.memory_total_mib)} in all`}>
      {parts.map((part) => (
        <i
          key={part.key}
          class={part.job === null ? "stranger" : ""}
          title={`${part.label}: ${mib(part.mib)}`}
          style={{
            width: `${(part.mib / gpu.memory_total_mib) * 100}%`,
            background: part.job === null ? "" : colourOfJob(part.job),
          }}
        />
      ))}
    </div>
  );
}

function Tenant(props: { part: Part; job: Job | undefined }) {
  const { part, job } = props;
  const ran = secondsBetween(job?.started_at, now.value);
  return (
    <li>
      {part.job !== null ? <JobLink id={part.job} name={job?.name ?? null} /> : <span class="stranger-name">{part.label}</span>}
      <span class="quiet-text">
        <bdi>{job?.user ?? part.user ?? ""}</bdi>
      </span>
      <span class="number">{part.isGuess ? UNKNOWN : mib(part.mib)}</span>
      <span class="number quiet-text">{ran === null ? "" : brief(ran)}</span>
    </li>
  );
}

/** `node` is the name of the GPU's machine, where there are several. */
export function GpuCard(props: { gpu: Gpu; node?: string | undefined }) {
  const { gpu, node } = props;
  const gauges = gaugesOf(gpu.uuid);
  const known = new Map((jobs.value ?? []).map((job) => [job.id, job]));
  const parts = partsOf(gpu);
  const busy = gpu.utilisation_percent;
  return (
    <article
      class={`gpu-card gpu-${gpu.state}`}
      aria-label={`GPU ${gpu.index}, ${gpu.type}${node === undefined ? "" : ` on ${node}`}, ${STATE_WORDS[gpu.state]}`}
    >
      <header>
        <h3>
          GPU {gpu.index} <span class="type">{gpu.type}</span> {isVirtual(gpu) && <VirtualBadge />}
          {node === undefined ? null : (
            <span class="type">
              {" "}
              on <bdi>{node}</bdi>
            </span>
          )}
        </h3>
        <span class="gpu-state">{STATE_WORDS[gpu.state]}</span>
      </header>
      <div class="gauge">
        <div class="reading">
          <strong>{busy ?? UNKNOWN}</strong>
          <span>% busy</span>
        </div>
        <Spark
          ring={gauges.utilisation}
          max={100}
          height={38}
          ink="use"
          label={`utilisation of the last two minutes, now ${busy ?? "unknown"} %`}
        />
      </div>
      <MemoryBar gpu={gpu} parts={parts} />
      <p class="under">
        <span>
          {mib(gpu.memory_used_mib)} of {mib(gpu.memory_total_mib)}
        </span>
        <span class="number">
          {gpu.power_watts === null || gpu.power_watts === undefined ? UNKNOWN : `${Math.round(gpu.power_watts)} W`} ·{" "}
          {gpu.temperature_c ?? UNKNOWN} °C
        </span>
      </p>
      <ul class="tenants">
        {parts.map((part) => (
          <Tenant key={part.key} part={part} job={part.job === null ? undefined : known.get(part.job)} />
        ))}
        {parts.length === 0 && <li class="quiet-text">nobody</li>}
      </ul>
    </article>
  );
}
