// Simulate: the same work under other policies, before the machine is given one of them.

import { useEffect, useState } from "preact/hooks";
import { call, isAbort, Problem, wordsOf } from "../../api/client";
import type { PolicyInfo, Simulation, SimulationAsk } from "../../api/contract";
import { status } from "../../live/store";
import { useAnswer } from "../../parts/answer";
import { Empty, Loading, Trouble } from "../../parts/notice";
import { say } from "../../parts/toast";
import { MachineBadge } from "../../parts/virtual";
import { go, route } from "../../route";
import { SimulationForm } from "./form";
import { Results } from "./results";

const LOOK_MS = 500;

/** Looks at a simulation until it is over. */
function useSimulation(id: string | null) {
  const [simulation, setSimulation] = useState<Simulation | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setSimulation(null);
    setProblem(null);
    if (id === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const seen = await call<Simulation>(`simulations/${encodeURIComponent(id)}`, { signal: stop.signal });
        setSimulation(seen);
        setProblem(null);
        if (seen.state !== "running") return;
      } catch (error) {
        if (isAbort(error)) return;
        setProblem(wordsOf(error));
        if (error instanceof Problem && error.status !== 0) return;
      }
      timer = setTimeout(() => void look(), LOOK_MS);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id]);
  return { simulation, problem };
}

async function begin(ask: SimulationAsk): Promise<void> {
  try {
    const { id } = await call<{ id: number | string }>("simulations", { method: "POST", body: ask });
    go("simulate", id);
  } catch (error) {
    say(wordsOf(error), "problem");
  }
}

async function cancel(id: string): Promise<void> {
  try {
    await call(`simulations/${encodeURIComponent(id)}`, { method: "DELETE" });
    say("the simulation is stopped");
  } catch (error) {
    say(wordsOf(error), "problem");
  }
}

function Running(props: { simulation: Simulation; onCancel(): void }) {
  const { progress, policies } = props.simulation;
  return (
    <section class="panel running" aria-label="the simulation runs" role="status">
      <p>
        Simulating {policies.join(", ")} … {progress === null ? "" : `${Math.round(progress * 100)} %`}
      </p>
      {progress === null ? <progress aria-label="progress" /> : <progress aria-label="progress" value={progress} max={1} />}
      <button type="button" onClick={props.onCancel}>
        stop
      </button>
    </section>
  );
}

export function Simulate() {
  const id = route.value.item;
  const policies = useAnswer<PolicyInfo[]>("policies", (stop) => call("policies", { signal: stop }));
  const { simulation, problem } = useSimulation(id);
  const isRunning = simulation?.state === "running";
  return (
    <>
      <div class="section-head">
        <h1>Simulate</h1>
        <p class="quiet-text">
          What would have happened under another policy, or on other GPUs <MachineBadge />
        </p>
      </div>
      <div class="simulate">
        {policies.value && status.value ? (
          <SimulationForm policies={policies.value} isRunning={isRunning} onSubmit={begin} />
        ) : policies.problem ? (
          <Trouble what="policies" problem={policies.problem} again={policies.again} />
        ) : (
          <Loading what="policies" />
        )}
        <div class="simulate-results">
          {problem && <Trouble what="the simulation" problem={problem} />}
          {!simulation &&
            !problem &&
            (id === null ? (
              <Empty>Choose policies, and run them on the jobs that this queue has really had.</Empty>
            ) : (
              <Loading what="the simulation" />
            ))}
          {simulation && isRunning && <Running simulation={simulation} onCancel={() => void cancel(String(simulation.id))} />}
          {simulation?.state === "failed" && (
            <Trouble what="the simulation failed" problem={simulation.error ?? "for no known reason"} />
          )}
          {simulation?.state === "cancelled" && <Empty>The simulation was stopped.</Empty>}
          {simulation && simulation.results.length > 0 && <Results simulation={simulation} />}
        </div>
      </div>
    </>
  );
}
