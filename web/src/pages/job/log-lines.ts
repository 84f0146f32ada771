// The lines of a log as elements of the page. Each line is a bidirectional island, so that right-to-left text or a stray override
// cannot reorder its neighbours; long lines are cut, and shown further on demand.

import type { Line, Log, Span } from "../../logic/ansi";

const CUT_CHARS = 4_000;
const MORE_CHARS = 64_000;

interface Shown {
  line: Line;
  length: number;
  element: HTMLElement;
}

export class LogLines {
  private shown: Shown[] = [];

  constructor(private readonly box: HTMLElement) {}

  clear(): void {
    this.shown = [];
    this.box.replaceChildren();
  }

  /** Takes over what is new in the log. */
  update(log: Log): void {
    const first = log.lines[0]?.number ?? 1;
    while (this.shown[0] && this.shown[0].line.number < first) {
      this.shown.shift()?.element.remove();
    }
    // All but the last line are as they were.
    const last = this.shown.pop();
    if (last && last.line === log.lines[this.shown.length] && last.length === last.line.length + last.line.lost)
      this.shown.push(last);
    else last?.element.remove();
    const fresh = document.createDocumentFragment();
    for (let at = this.shown.length; at < log.lines.length; at += 1) {
      const line = log.lines[at] as Line;
      // The line that is being written is not there before it has something.
      if (at === log.lines.length - 1 && line.length === 0) break;
      const element = elementOf(line, CUT_CHARS);
      fresh.append(element);
      this.shown.push({ line, length: line.length + line.lost, element });
    }
    this.box.append(fresh);
  }
}

function elementOf(line: Line, limit: number): HTMLElement {
  const element = document.createElement("div");
  element.className = "line";
  element.dir = "auto";
  element.append(...spansOf(line.spans, limit));
  if (line.length > limit) element.append(moreButton(line, limit, element));
  else if (line.lost > 0) element.append(note(` … and ${line.lost.toLocaleString("en")} more characters in the file`));
  if (line.length === 0) element.append("\u200b");
  return element;
}

function spansOf(spans: Span[], limit: number): Node[] {
  const nodes: Node[] = [];
  let left = limit;
  for (const span of spans) {
    if (left <= 0) break;
    const text = span.text.length > left ? span.text.slice(0, left) : span.text;
    left -= text.length;
    if (span.style === "") {
      nodes.push(document.createTextNode(text));
    } else {
      const styled = document.createElement("span");
      styled.className = span.style;
      styled.textContent = text;
      nodes.push(styled);
    }
  }
  return nodes;
}

function moreButton(line: Line, limit: number, element: HTMLElement): HTMLElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  const rest = line.length - limit + line.lost;
  button.textContent = `show more (${rest.toLocaleString("en")} characters are left)`;
  button.addEventListener("click", () => {
    const longer = elementOf(line, limit + MORE_CHARS);
    element.replaceChildren(...longer.childNodes);
    const next = element.querySelector("button");
    // The button that was made for the other element must lead back to this one.
    next?.replaceWith(moreButton(line, limit + MORE_CHARS, element));
  });
  return button;
}

function note(text: string): HTMLElement {
  const element = document.createElement("em");
  element.textContent = text;
  return element;
}
