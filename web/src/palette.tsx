// The command palette: pages, jobs and actions by a few letters, from anywhere (Ctrl+K).

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { session } from "./api/client";
import type { Job } from "./api/contract";
import { ended, jobs } from "./live/store";
import { type Command, found } from "./logic/commands";
import { begin, verbsFor } from "./parts/actions";
import { Modal } from "./parts/dialog";
import { nameOf } from "./parts/job";
import { go, PAGES } from "./route";
import { openHelp } from "./shortcuts";
import { toggleTheme } from "./theme";

const isOpen = signal(false);

export function openPalette(): void {
  isOpen.value = true;
}

export function followPaletteKey(): void {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k" && session.peek()) {
      event.preventDefault();
      openPalette();
    }
  });
}

function jobCommands(job: Job): Command[] {
  const called = `${nameOf(job)} (${job.id})`;
  const also = `${job.id} ${job.user} ${job.state}`;
  const open: Command = { key: `open ${job.id}`, title: called, kind: `job, ${job.state}`, also, run: () => go("job", job.id) };
  const verbs = verbsFor(job, session.peek()).map(
    (verb): Command => ({
      key: `${verb} ${job.id}`,
      title: `${verb} ${called}`,
      kind: "action",
      also,
      run: () => begin(job, verb),
    }),
  );
  return [open, ...verbs];
}

/** Everything that can be done; what is done to jobs comes last, so that it is found by words and not by accident. */
function allCommands(typed: string): Command[] {
  const pages = PAGES.map((page): Command => ({ key: page.name, title: page.title, kind: "page", run: () => go(page.name) }));
  const actions: Command[] = [
    { key: "theme", title: "light or dark", kind: "action", also: "theme", run: toggleTheme },
    { key: "keys", title: "keys", kind: "action", also: "help shortcuts", run: openHelp },
  ];
  const number = /^\s*#?(\d+)\s*$/.exec(typed)?.[1];
  const byNumber: Command[] = number
    ? [{ key: `number ${number}`, title: `job ${number}`, kind: "open by number", also: number, run: () => go("job", number) }]
    : [];
  const ofJobs = [...(jobs.value ?? []), ...ended.value].flatMap(jobCommands);
  const isOpening = (command: Command) => command.key.startsWith("open ");
  return [...byNumber, ...pages, ...ofJobs.filter(isOpening), ...actions, ...ofJobs.filter((command) => !isOpening(command))];
}

export function Palette() {
  if (!isOpen.value) return null;
  return <OpenPalette />;
}

function OpenPalette() {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const list = found(allCommands(typed), typed);
  const at = Math.min(chosen, Math.max(0, list.length - 1));
  useEffect(() => field.current?.focus(), []);
  const close = () => {
    isOpen.value = false;
  };
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((at + 1) % Math.max(1, list.length));
    else if (event.key === "ArrowUp") setChosen((at + list.length - 1) % Math.max(1, list.length));
    else if (event.key === "Enter") run(list[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Modal label="commands" class="palette" onClose={close}>
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label="command"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={list[at] ? `command-${at}` : undefined}
        placeholder="page, job or action"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKey}
      />
      <div id="palette-list" role="listbox" aria-label="what fits">
        {list.map((command, place) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys for the whole list.
          <div
            key={command.key}
            id={`command-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === at}
            onClick={() => run(command)}
            onPointerMove={() => setChosen(place)}
          >
            <bdi>{command.title}</bdi>
            <span class="quiet-text">{command.kind}</span>
          </div>
        ))}
      </div>
      {list.length === 0 && <p class="quiet-text">Nothing fits.</p>}
    </Modal>
  );
}
