// A group of jobs (an array, a sweep, a batch): how many of it are in which state, its members with their parameters and results,
// and what may be done to all of it.

import { call, session, wordsOf } from "../../api/client";
import type { Group, GroupDetail, Job } from "../../api/contract";
import { refreshNow } from "../../live/link";
import { changes } from "../../live/store";
import { duration, plural } from "../../logic/format";
import { mayTouch } from "../../parts/actions";
import { useAnswer } from "../../parts/answer";
import { ask } from "../../parts/dialog";
import { StateMark } from "../../parts/job";
import { Loading, Trouble } from "../../parts/notice";
import { say } from "../../parts/toast";
import { hrefOf } from "../../route";

type Counts = Group["counts"];

const WORDS: [keyof Counts, string][] = [
  ["done", "done"],
  ["running", "running"],
  ["waiting", "waiting"],
  ["held", "held"],
  ["failed", "failed"],
  ["cancelled", "cancelled"],
  ["lost", "lost"],
];

export function GroupCounts(props: { counts: Counts }) {
  const there = WORDS.filter(([key]) => props.counts[key] > 0);
  const all = there.reduce((sum, [key]) => sum + props.counts[key], 0);
  return (
    <span class="group-counts">
      <span class="parts" aria-hidden="true">
        {there.map(([key]) => (
          <i key={key} class={`part-${key}`} style={{ width: `${(props.counts[key] / all) * 100}%` }} />
        ))}
      </span>
      <span>{there.map(([key, word]) => `${props.counts[key].toLocaleString("en")} ${word}`).join(", ")}</span>
    </span>
  );
}

type GroupVerb = "cancel" | "hold" | "release" | "retry";

/** What is left of a group that a verb would change. */
function touchedBy(verb: GroupVerb, counts: Counts): number {
  if (verb === "cancel") return counts.waiting + counts.held + counts.running;
  if (verb === "hold") return counts.waiting;
  return verb === "release" ? counts.held : counts.failed + counts.cancelled + counts.lost;
}

async function act(group: number, verb: GroupVerb): Promise<void> {
  try {
    await call(`groups/${group}/${verb}`, { method: "POST" });
    say(`group ${group}: ${verb} is done`);
  } catch (error) {
    say(wordsOf(error), "problem");
  }
  refreshNow();
}

export function GroupActions(props: { group: number; name: string; job: Job; counts: Counts | undefined }) {
  const { counts, group } = props;
  if (!counts || !mayTouch(props.job, session.value)) return null;
  const verbs = (["hold", "release", "retry", "cancel"] as const).filter((verb) => touchedBy(verb, counts) > 0);
  const begin = (verb: GroupVerb) =>
    ask({
      title: `${verb} ${plural(touchedBy(verb, counts), "job")} of ${props.name}?`,
      text:
        verb === "cancel"
          ? "Waiting jobs leave the queue. Running jobs are asked to stop."
          : "The other jobs of the group stay as they are.",
      yes: `${verb} ${plural(touchedBy(verb, counts), "job")}`,
      isGrave: verb === "cancel",
      onYes: () => void act(group, verb),
    });
  return (
    <span class="actions">
      {verbs.map((verb) => (
        <button
          key={verb}
          type="button"
          class={verb === "cancel" ? "quiet grave-text" : "quiet"}
          aria-label={`${verb} group ${group}`}
          onClick={() => begin(verb)}
        >
          {verb}
        </button>
      ))}
    </span>
  );
}

const MEMBERS_MAX = 200;

export function GroupMembers(props: { group: number }) {
  const answer = useAnswer<GroupDetail>(
    String(props.group),
    (stop) => call(`groups/${props.group}`, { signal: stop }),
    changes.value,
  );
  const group = answer.value;
  if (!group) {
    return answer.problem ? (
      <Trouble what="the group" problem={answer.problem} again={answer.again} />
    ) : (
      <Loading what="the group" />
    );
  }
  const hasResult = group.members.some((member) => member.result);
  return (
    <div class="scroll">
      <table class="members" aria-label={`jobs of ${group.name}`}>
        <thead>
          <tr>
            <th>job</th>
            {group.params.length === 0 && <th>index</th>}
            {group.params.map((name) => (
              <th key={name}>
                <bdi>{name}</bdi>
              </th>
            ))}
            <th>state</th>
            <th class="number">ran for</th>
            {hasResult && <th>result</th>}
          </tr>
        </thead>
        <tbody>
          {group.members.slice(0, MEMBERS_MAX).map((member) => (
            <tr key={member.id}>
              <td>
                <a href={hrefOf("job", member.id)}>{member.id}</a>
              </td>
              {group.params.length === 0 && <td>{member.array_index ?? ""}</td>}
              {group.params.map((name) => (
                <td key={name}>
                  <bdi>{member.params?.[name] ?? ""}</bdi>
                </td>
              ))}
              <td>
                <StateMark state={member.state} />
                {member.state === "failed" && member.exit_code ? ` code ${member.exit_code}` : ""}
              </td>
              <td class="number">{duration(member.duration_seconds)}</td>
              {hasResult && (
                <td>
                  <bdi>{member.result ?? ""}</bdi>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {group.members.length > MEMBERS_MAX && (
        <p class="quiet-text">
          The first {MEMBERS_MAX} of {group.members.length.toLocaleString("en")}; all of them:{" "}
          <code>rota show group:{group.id}</code>
        </p>
      )}
    </div>
  );
}
