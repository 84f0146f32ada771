// What may be done to a job, for those with the right to it.

import { call, session, wordsOf } from "../api/client";
import { isOver, type Job, type Session } from "../api/contract";
import { refreshNow } from "../live/link";
import { go, route } from "../route";
import { ask } from "./dialog";
import { nameOf } from "./job";
import { say } from "./toast";

export type Verb = "cancel" | "hold" | "release" | "retry" | "priority";

export function mayTouch(job: Job, who: Session | null | undefined): boolean {
  if (!who || who.scope === "read") return false;
  return who.scope === "admin" || job.user === who.user;
}

export function verbsFor(job: Job, who: Session | null | undefined): Verb[] {
  if (!mayTouch(job, who)) return [];
  if (isOver(job.state)) return job.claim ? [] : ["retry"];
  if (job.state === "waiting") return ["priority", "hold", "cancel"];
  if (job.state === "held") return ["priority", "release", "cancel"];
  return job.state === "stopping" ? [] : ["cancel"];
}

const DONE: Record<Exclude<Verb, "priority" | "retry">, string> = {
  cancel: "cancelled",
  hold: "held",
  release: "released",
};

/** Another run is another job; whoever looks at the old one wants to see it. */
function showRetry(job: Job, next: number | undefined): void {
  if (next === undefined) return;
  say(`job ${job.id} is queued again as job ${next}`);
  if (route.peek().page === "job") go("job", next);
}

async function act(job: Job, verb: Exclude<Verb, "priority">): Promise<void> {
  try {
    const touched = await call<number[]>(`jobs/${job.id}/${verb}`, { method: "POST" });
    if (verb === "retry") showRetry(job, touched[0]);
    else say(`job ${job.id} is ${DONE[verb]}`);
  } catch (error) {
    say(wordsOf(error), "problem");
  }
  refreshNow();
}

async function setPriority(job: Job, priority: number): Promise<void> {
  try {
    await call(`jobs/${job.id}`, { method: "PATCH", body: { priority } });
    say(`job ${job.id} has priority ${priority}`);
  } catch (error) {
    say(wordsOf(error), "problem");
  }
  refreshNow();
}

export function begin(job: Job, verb: Verb): void {
  const called = `job ${job.id}, ${nameOf(job)}`;
  if (verb === "cancel") {
    const text =
      job.state === "waiting" || job.state === "held"
        ? "It has not started; it leaves the queue."
        : "It is asked to stop, and killed when its grace time is over.";
    ask({ title: `Cancel ${called}?`, text, yes: "cancel the job", isGrave: true, onYes: () => void act(job, "cancel") });
  } else if (verb === "priority") {
    const text = "Higher runs first under the policies that look at it.";
    ask({
      title: `Priority of ${called}`,
      text,
      yes: "set",
      amount: job.priority,
      onYes: (amount) => void setPriority(job, Math.trunc(amount)),
    });
  } else {
    void act(job, verb);
  }
}

export function Actions(props: { job: Job }) {
  const verbs = verbsFor(props.job, session.value);
  return (
    <span class="actions">
      {verbs.map((verb) => (
        <button
          key={verb}
          type="button"
          class={verb === "cancel" ? "quiet grave-text" : "quiet"}
          aria-label={`${verb} job ${props.job.id}`}
          onClick={() => begin(props.job, verb)}
        >
          {verb}
        </button>
      ))}
    </span>
  );
}
