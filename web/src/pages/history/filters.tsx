// Which jobs of the past.

import { type NamedUse, OVER, type Usage } from "../../api/contract";

export interface JobFilter {
  q: string;
  state: string;
  user: string;
  project: string;
}

export const NO_FILTER: JobFilter = { q: "", state: "", user: "", project: "" };

interface Props {
  filter: JobFilter;
  usage: Usage | null;
  onChange(filter: JobFilter): void;
}

const namesOf = (uses: NamedUse[] | undefined) =>
  (uses ?? []).map((use) => use.name).filter((name) => name !== null && name !== "") as string[];

export function Filters(props: Props) {
  const { filter, usage, onChange } = props;
  const set = (part: Partial<JobFilter>) => onChange({ ...filter, ...part });
  const isAny = Object.values(filter).some((value) => value !== "");
  return (
    <div class="controls" role="search">
      <input
        type="search"
        placeholder="name or command"
        aria-label="search names and commands"
        aria-keyshortcuts="/"
        value={filter.q}
        onInput={(event) => set({ q: event.currentTarget.value })}
      />
      <Choice label="state" value={filter.state} choices={OVER} onChange={(state) => set({ state })} />
      <Choice label="user" value={filter.user} choices={namesOf(usage?.users)} onChange={(user) => set({ user })} />
      <Choice label="project" value={filter.project} choices={namesOf(usage?.projects)} onChange={(project) => set({ project })} />
      {isAny && (
        <button type="button" onClick={() => onChange(NO_FILTER)}>
          all
        </button>
      )}
    </div>
  );
}

function Choice(props: { label: string; value: string; choices: readonly string[]; onChange(value: string): void }) {
  // What was chosen stays in the list, whether or not this stretch of time has it.
  const choices = props.value !== "" && !props.choices.includes(props.value) ? [props.value, ...props.choices] : props.choices;
  return (
    <select aria-label={props.label} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
      <option value="">any {props.label}</option>
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {choice}
        </option>
      ))}
    </select>
  );
}
