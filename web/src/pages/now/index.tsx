// Now: every GPU with who is on it, and the queue with its reasons.

import { call } from "../../api/client";
import { type Group, type Job, RUNS } from "../../api/contract";
import { changes, ended, jobs, now, status } from "../../live/store";
import { plural } from "../../logic/format";
import { matches, ORDERS, type Order, sorted } from "../../logic/queue";
import { useAnswer } from "../../parts/answer";
import { Empty, Loading } from "../../parts/notice";
import { MachineBadge } from "../../parts/virtual";
import { rememberInAddress, route } from "../../route";
import { GpuCard } from "./gpu-card";
import { EndedTable, RunningTable, WaitingTable } from "./queue";

const GROUPS_MAX = 100;
/** With more GPUs than these the cards become small, so that the queue stays in view. */
const MANY = 4;

function Warnings() {
  const seen = status.value;
  if (!seen || (seen.warnings.length === 0 && !seen.draining)) return null;
  return (
    <div class="notice warning" role="status">
      {seen.draining && <p>The queue is draining: nothing more is started. `rota resume` ends that.</p>}
      {seen.warnings.map((warning) => (
        <p key={warning}>{warning}</p>
      ))}
    </div>
  );
}

/** Three or four cards abreast, whichever leaves the smaller hole; fewer GPUs get wider cards. */
export function columnsFor(count: number): number {
  if (count <= 4) return Math.max(2, count);
  const hole = (columns: number) => (columns - (count % columns)) % columns;
  return hole(4) <= hole(3) ? 4 : 3;
}

function Gpus() {
  const seen = status.value;
  if (!seen) return <Loading what="the GPUs" />;
  if (seen.gpus.length === 0) {
    return (
      <Empty>
        No GPU was found. To try everything without one: <code>rota up --virtual-gpus a100:2,t4:2</code>
      </Empty>
    );
  }
  const hasNodes = seen.gpus.some((gpu) => gpu.node !== seen.gpus[0]?.node);
  return (
    <div class={`gpu-cards ${seen.gpus.length > MANY ? "many" : ""}`} style={{ "--columns": columnsFor(seen.gpus.length) }}>
      {seen.gpus.map((gpu) => (
        <GpuCard key={gpu.uuid} gpu={gpu} node={hasNodes ? gpu.node : undefined} />
      ))}
    </div>
  );
}

/** How many jobs of each group are in which state, for the groups in the queue. */
function useGroups(): ReadonlyMap<number, Group> {
  const ids = [...new Set((jobs.value ?? []).flatMap((job) => job.group ?? []))].slice(0, GROUPS_MAX);
  const key = ids.length > 0 ? ids.join(",") : null;
  const answer = useAnswer<Group[]>(key, (stop) => call("groups", { query: { ids: key ?? "" }, signal: stop }), changes.value);
  return new Map((answer.value ?? []).map((group) => [group.id, group]));
}

function QueueControls(props: { hasGroups: boolean; onChange(choice: Record<string, string | null>): void }) {
  const query = route.value.query;
  return (
    <div class="controls queue-controls" role="search">
      <input
        type="search"
        aria-label="search the queue"
        placeholder="name, user, number, state …"
        value={query.get("q") ?? ""}
        onInput={(event) => props.onChange({ q: event.currentTarget.value })}
      />
      <label>
        sort{" "}
        <select value={query.get("sort") ?? "queue"} onChange={(event) => props.onChange({ sort: event.currentTarget.value })}>
          {ORDERS.map(([order, words]) => (
            <option key={order} value={order}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {props.hasGroups && (
        <label class="choice">
          <input
            type="checkbox"
            checked={query.get("groups") !== "no"}
            onChange={(event) => props.onChange({ groups: event.currentTarget.checked ? null : "no" })}
          />{" "}
          one row for a group
        </label>
      )}
    </div>
  );
}

function Queue(props: { listed: Job[] }) {
  const query = route.value.query;
  const search = query.get("q") ?? "";
  const order = (query.get("sort") ?? "queue") as Order;
  const groups = useGroups();
  const minute = Math.floor(now.value / 60_000) * 60_000;
  const found = sorted(
    props.listed.filter((job) => matches(job, search)),
    ORDERS.some(([known]) => known === order) ? order : "queue",
    minute,
  );
  const running = found.filter((job) => RUNS.includes(job.state));
  const waiting = found.filter((job) => !RUNS.includes(job.state));
  const table = { groups, isFolded: query.get("groups") !== "no", isSearched: search.trim() !== "" };
  return (
    <div class="queue-part">
      <div class="section-head">
        <h2 class="unseen">Queue</h2>
        <QueueControls hasGroups={props.listed.some((job) => job.group)} onChange={rememberInAddress} />
      </div>
      <div class="queue-columns">
        <section aria-label="running jobs">
          <div class="section-head">
            <h2>Running</h2>
            <p class="quiet-text">{plural(running.length, "job")}</p>
          </div>
          <RunningTable jobs={running} {...table} />
        </section>
        <section aria-label="waiting jobs">
          <div class="section-head">
            <h2>Waiting</h2>
            <p class="quiet-text">{plural(waiting.length, "job")}</p>
          </div>
          <WaitingTable jobs={waiting} {...table} />
        </section>
      </div>
      {ended.value.length > 0 && (
        <section aria-label="jobs that just ended">
          <div class="section-head">
            <h2>Just ended</h2>
            <p class="quiet-text">
              <a href="#/history">all of the past</a>
            </p>
          </div>
          <EndedTable jobs={ended.value.filter((job) => matches(job, search))} />
        </section>
      )}
    </div>
  );
}

export function Now() {
  const seen = status.value;
  const listed = jobs.value;
  const busy = seen?.gpus.filter((gpu) => gpu.jobs.length > 0).length ?? 0;
  const watts = seen?.gpus.reduce((sum, gpu) => sum + (gpu.power_watts ?? 0), 0) ?? 0;
  return (
    <>
      <h1 class="unseen">Now</h1>
      <Warnings />
      <div class="now-parts">
        <section aria-label="GPUs" class="gpu-part">
          <div class="section-head">
            <h2>GPUs</h2>
            {seen && (
              <p class="quiet-text">
                {busy} of {seen.gpus.length} in use · {Math.round(watts).toLocaleString("en")} W · policy <code>{seen.policy}</code>{" "}
                <MachineBadge />
              </p>
            )}
          </div>
          <Gpus />
        </section>
        {listed === null ? (
          <Loading what="the queue" />
        ) : listed.length === 0 && ended.value.length === 0 ? (
          <Empty>
            No jobs yet. Try: <code>rota submit --name hello -- nvidia-smi</code>
          </Empty>
        ) : (
          <Queue listed={listed} />
        )}
      </div>
    </>
  );
}
