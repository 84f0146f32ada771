// Keys: a page each, search, help. Never while something is being typed.

import { signal } from "@preact/signals";
import { Modal } from "./parts/dialog";
import { go, PAGES, route } from "./route";
import { toggleTheme } from "./theme";

const isHelpOpen = signal(false);

/** The job that was looked at last; the page of jobs opens with it. */
export const lastJob = signal<string | null>(null);

export function openPage(number: number): void {
  const page = PAGES[number - 1];
  if (page) go(page.name, page.name === "job" ? lastJob.peek() : null);
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

function focusSearch(): void {
  const find = () => document.querySelector<HTMLInputElement>("input[type=search]");
  const field = find();
  if (field) {
    field.focus();
    return;
  }
  go("history");
  // The page is drawn after the address has changed.
  setTimeout(() => find()?.focus(), 60);
}

export function openHelp(): void {
  isHelpOpen.value = true;
}

export function followShortcuts(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (/^[1-5]$/.test(event.key)) openPage(Number(event.key));
    else if (event.key === "/") focusSearch();
    else if (event.key === "?") openHelp();
    else if (event.key === "t") toggleTheme();
    else return;
    event.preventDefault();
  });
}

const KEYS: [string, string][] = [
  ...PAGES.map((page, at): [string, string] => [String(at + 1), page.title]),
  ["/", "search: the queue on Now, otherwise the past"],
  ["Ctrl K", "commands: pages, jobs and what to do with them"],
  ["t", "light or dark"],
  ["?", "this help"],
];

const TIMELINE_KEYS: [string, string][] = [
  ["+ −", "closer, further"],
  ["← →", "earlier, later"],
  ["0", "back to now"],
  ["wheel, pinch", "closer, further"],
  ["drag", "earlier, later"],
];

const Keys = (props: { keys: [string, string][] }) => (
  <dl class="keys">
    {props.keys.map(([key, meaning]) => (
      <div key={key}>
        <dt>
          <kbd>{key}</kbd>
        </dt>
        <dd>{meaning}</dd>
      </div>
    ))}
  </dl>
);

export function Help() {
  if (!isHelpOpen.value) return null;
  const close = () => {
    isHelpOpen.value = false;
  };
  return (
    <Modal label="keys" onClose={close}>
      <h2>Keys</h2>
      <Keys keys={KEYS} />
      <h3>On the timeline{route.value.page === "timeline" ? "" : " (2)"}</h3>
      <Keys keys={TIMELINE_KEYS} />
      <div class="buttons">
        <button type="button" class="main" onClick={close}>
          close
        </button>
      </div>
    </Modal>
  );
}
