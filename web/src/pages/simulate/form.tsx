// What to simulate: whose jobs, on which GPUs, under which policies.

import { useState } from "preact/hooks";
import type { PolicyInfo, SimulationAsk } from "../../api/contract";
import { status } from "../../live/store";
import { clusterOf } from "./cluster";

const POLICIES_MAX = 8;
const TRACE_BYTES_MAX = 15 << 20;
/** Beside the policy that is in force. */
const AT_FIRST = ["fcfs", "sjf", "las"];

interface Props {
  policies: PolicyInfo[];
  isRunning: boolean;
  onSubmit(ask: SimulationAsk): void;
}

interface Trace {
  name: string;
  text: string;
}

function PolicyChoice(props: { policy: PolicyInfo; isChosen: boolean; isInForce: boolean; isFull: boolean; onToggle(): void }) {
  const { policy } = props;
  const marks = [policy.preemptive && "preempts", policy.packs && "packs", policy.heterogeneity_aware && "knows GPU types"].filter(
    Boolean,
  );
  return (
    <label class="policy">
      <input type="checkbox" checked={props.isChosen} disabled={props.isFull && !props.isChosen} onChange={props.onToggle} />
      <span>
        <strong>{policy.name}</strong> {props.isInForce && <span class="chip">in force</span>}{" "}
        <span class="quiet-text">{policy.summary}</span>
        {marks.length > 0 && <small>{marks.join(" · ")}</small>}
      </span>
    </label>
  );
}

export function SimulationForm(props: Props) {
  const { policies } = props;
  const [source, setSource] = useState<"history" | "trace">("history");
  const [trace, setTrace] = useState<Trace | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [cluster, setCluster] = useState("");
  const [chosen, setChosen] = useState(() => {
    const inForce = status.peek()?.policy;
    const known = AT_FIRST.filter((name) => policies.some((policy) => policy.name === name));
    return inForce ? [inForce, ...known.filter((name) => name !== inForce)] : known;
  });
  const [search, setSearch] = useState("");
  const [special, setSpecial] = useState("");
  const [seed, setSeed] = useState("0");
  const toggle = (name: string) => setChosen(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]);
  const isFull = chosen.length >= POLICIES_MAX;
  const named = new Set(policies.map((policy) => policy.name));
  const words = search.trim().toLowerCase();
  const inForce = status.value?.policy.split(":")[0];
  const listed = policies
    .filter((policy) => `${policy.name} ${policy.aliases.join(" ")} ${policy.summary}`.toLowerCase().includes(words))
    .sort((a, b) => Number(b.name === inForce) - Number(a.name === inForce));

  const read = async (file: File | undefined) => {
    setProblem(null);
    setTrace(null);
    if (!file) return;
    if (file.size > TRACE_BYTES_MAX)
      setProblem(`${file.name} has more than ${TRACE_BYTES_MAX >> 20} MiB; use \`rota sim --trace\` for it`);
    else setTrace({ name: file.name, text: await file.text() });
  };
  const add = () => {
    const name = special.trim();
    if (name !== "" && !chosen.includes(name) && !isFull) setChosen([...chosen, name]);
    setSpecial("");
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (source === "trace" && !trace) {
      setProblem("choose a file first");
      return;
    }
    const ask: SimulationAsk = { source, policies: chosen, seed: Number(seed) || 0 };
    if (source === "trace" && trace) ask.text = trace.text;
    if (cluster.trim() !== "") ask.cluster = cluster.trim();
    props.onSubmit(ask);
  };
  return (
    <form class="panel simulation-form" onSubmit={submit}>
      <fieldset>
        <legend>jobs</legend>
        <label class="choice">
          <input type="radio" name="source" checked={source === "history"} onChange={() => setSource("history")} /> recorded by this
          queue
        </label>
        <label class="choice">
          <input type="radio" name="source" checked={source === "trace"} onChange={() => setSource("trace")} /> a trace file
        </label>
        {source === "trace" && (
          <label class="field">
            <span class="unseen">trace file</span>
            <input type="file" onChange={(event) => void read(event.currentTarget.files?.[0])} />
            <small class="quiet-text">any format that `rota sim --trace` reads</small>
          </label>
        )}
        {problem && (
          <p class="field-problem" role="alert">
            {problem}
          </p>
        )}
      </fieldset>
      <label class="field">
        GPUs
        <input
          type="text"
          value={cluster}
          placeholder={status.value ? `${clusterOf(status.value.gpus)} (this machine)` : "this machine"}
          onInput={(event) => setCluster(event.currentTarget.value)}
          spellcheck={false}
        />
        <small class="quiet-text">as a100:2,t4:2</small>
      </label>
      <fieldset>
        <legend>
          policies{" "}
          <span class="quiet-text">
            {chosen.length} chosen, {POLICIES_MAX} at most
          </span>
        </legend>
        <input
          type="search"
          aria-label="search policies"
          placeholder="search policies"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <div class="policies">
          {listed.map((policy) => (
            <PolicyChoice
              key={policy.name}
              policy={policy}
              isChosen={chosen.includes(policy.name)}
              isInForce={policy.name === inForce}
              isFull={isFull}
              onToggle={() => toggle(policy.name)}
            />
          ))}
          {listed.length === 0 && <p class="quiet-text">No policy fits.</p>}
        </div>
        <div class="choice">
          <input
            type="text"
            aria-label="policy with parameters"
            placeholder="rr:quantum=60"
            value={special}
            spellcheck={false}
            onInput={(event) => setSpecial(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter") return;
              event.preventDefault();
              add();
            }}
          />
          <button type="button" disabled={special.trim() === "" || isFull} onClick={add}>
            add
          </button>
        </div>
        <p class="chips">
          {chosen
            .filter((name) => !named.has(name))
            .map((name) => (
              <button key={name} type="button" class="chip" aria-label={`remove ${name}`} onClick={() => toggle(name)}>
                {name} ×
              </button>
            ))}
        </p>
      </fieldset>
      <label class="field">
        seed
        <input type="number" min="0" step="1" value={seed} onInput={(event) => setSeed(event.currentTarget.value)} />
      </label>
      <button type="submit" class="main" disabled={props.isRunning || chosen.length === 0}>
        {props.isRunning ? "running …" : "run"}
      </button>
    </form>
  );
}
