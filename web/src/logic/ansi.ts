// Text with terminal escapes, as lines of styled spans. Nothing of it is ever markup: colours become class names, everything else that a
// terminal would obey is left out, and control characters are shown as pictures of themselves.

/** Longer lines keep their beginning; the rest is counted. */
export const LINE_CHARS_MAX = 2 << 20;
/** More lines than this push the oldest out. */
export const LINES_MAX = 2_000;

export interface Span {
  text: string;
  style: string;
}

export interface Line {
  /** From 1, in what was read. */
  number: number;
  spans: Span[];
  /** Characters in the spans. */
  length: number;
  /** Characters that were left out behind them. */
  lost: number;
}

type Mode = "text" | "escape" | "charset" | "csi" | "string" | "string-escape";

interface Style {
  ink: number | null;
  paper: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
}

const PLAIN: Style = { ink: null, paper: null, bold: false, dim: false, italic: false, underline: false, inverse: false };
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;
const CSI_CHARS_MAX = 64;

const newLine = (number: number): Line => ({ number, spans: [], length: 0, lost: 0 });

export class Log {
  /** Lines that are there; the last one may still grow. */
  lines: Line[] = [newLine(1)];
  /** How many were pushed out. */
  dropped = 0;
  private mode: Mode = "text";
  private csi = "";
  private style: Style = PLAIN;
  private classes = "";
  /** After a carriage return the next character begins the line anew, as progress bars do. */
  private returned = false;

  get isEmpty(): boolean {
    return this.dropped === 0 && this.lines.length === 1 && this.last.length === 0;
  }

  private get last(): Line {
    return this.lines[this.lines.length - 1] as Line;
  }

  push(chunk: string): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.mode === "text") {
        CONTROL.lastIndex = at;
        const found = CONTROL.exec(chunk);
        const end = found ? found.index : chunk.length;
        if (end > at) this.write(chunk.slice(at, end));
        if (found) this.control(found[0]);
        at = end + 1;
      } else {
        this.escape(chunk[at] as string);
        at += 1;
      }
    }
  }

  private control(char: string): void {
    const code = char.charCodeAt(0);
    if (char === "\n") this.endLine();
    else if (char === "\r") this.returned = true;
    else if (char === "\t") this.write("\t");
    else if (char === "\u001b") this.mode = "escape";
    else if (char === "\u009b") this.beginCsi();
    else if (char === "\b" || char === "\u0007") return;
    else if (code < 0x20) this.write(String.fromCharCode(0x2400 + code));
    else if (code === 0x7f) this.write("\u2421");
    else this.write("\ufffd");
  }

  private beginCsi(): void {
    this.csi = "";
    this.mode = "csi";
  }

  private escape(char: string): void {
    if (this.mode === "escape") {
      if (char === "[") this.beginCsi();
      else if ("]P^_X".includes(char)) this.mode = "string";
      else if ("()*+-./#% ".includes(char)) this.mode = "charset";
      else this.mode = "text";
    } else if (this.mode === "charset") {
      this.mode = "text";
    } else if (this.mode === "csi") {
      if (char >= "@" && char <= "~") {
        if (char === "m") this.restyle(this.csi);
        this.mode = "text";
      } else if (char === "\u001b") {
        this.mode = "escape";
      } else if (char === "\n") {
        // An escape that never ended must not swallow the log.
        this.mode = "text";
        this.endLine();
      } else if (this.csi.length < CSI_CHARS_MAX) {
        this.csi += char;
      }
    } else if (char === "\n") {
      this.mode = "text";
      this.endLine();
    } else if (char === "\u0007" || (this.mode === "string-escape" && char === "\\")) {
      this.mode = "text";
    } else {
      this.mode = char === "\u001b" ? "string-escape" : "string";
    }
  }

  private write(text: string): void {
    let line = this.last;
    if (this.returned) {
      this.returned = false;
      line = newLine(line.number);
      this.lines[this.lines.length - 1] = line;
    }
    const room = LINE_CHARS_MAX - line.length;
    if (text.length > room) {
      line.lost += text.length - room;
      if (room <= 0) return;
      text = text.slice(0, room);
    }
    const span = line.spans[line.spans.length - 1];
    if (span && span.style === this.classes) span.text += text;
    else line.spans.push({ text, style: this.classes });
    line.length += text.length;
  }

  private endLine(): void {
    this.returned = false;
    this.lines.push(newLine(this.last.number + 1));
    if (this.lines.length > LINES_MAX * 1.25) {
      const surplus = this.lines.length - LINES_MAX;
      this.lines.splice(0, surplus);
      this.dropped += surplus;
    }
  }

  private restyle(parameters: string): void {
    const codes = parameters.split(/[;:]/).map((part) => Number.parseInt(part, 10) || 0);
    const style = { ...this.style };
    for (let i = 0; i < codes.length; i += 1) {
      const code = codes[i] as number;
      if (code === 38 || code === 48) {
        const [colour, used] = wideColour(codes, i + 1);
        if (code === 38) style.ink = colour;
        else style.paper = colour;
        i += used;
      } else {
        apply(style, code);
      }
    }
    this.style = style;
    this.classes = classesOf(style);
  }
}

function apply(style: Style, code: number): void {
  if (code === 0) Object.assign(style, PLAIN);
  else if (code === 1) style.bold = true;
  else if (code === 2) style.dim = true;
  else if (code === 3) style.italic = true;
  else if (code === 4) style.underline = true;
  else if (code === 7) style.inverse = true;
  else if (code === 22) style.bold = style.dim = false;
  else if (code === 23) style.italic = false;
  else if (code === 24) style.underline = false;
  else if (code === 27) style.inverse = false;
  else if (code >= 30 && code <= 37) style.ink = code - 30;
  else if (code === 39) style.ink = null;
  else if (code >= 40 && code <= 47) style.paper = code - 40;
  else if (code === 49) style.paper = null;
  else if (code >= 90 && code <= 97) style.ink = code - 82;
  else if (code >= 100 && code <= 107) style.paper = code - 92;
}

/** The nearest of the sixteen colours, which the page's themes know, and how many parameters it took. */
function wideColour(codes: number[], at: number): [number | null, number] {
  if (codes[at] === 5) return [ofPalette(codes[at + 1] ?? 0), 2];
  if (codes[at] === 2) return [nearest(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), 4];
  return [null, 1];
}

function ofPalette(index: number): number {
  if (index < 16) return index;
  if (index >= 232) {
    const grey = (index - 232) * 10 + 8;
    return nearest(grey, grey, grey);
  }
  const level = (n: number) => (n === 0 ? 0 : 55 + n * 40);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 40) return most < 64 ? 0 : most < 140 ? 8 : most < 215 ? 7 : 15;
  const half = (most + least) / 2;
  const bits = (red > half ? 1 : 0) | (green > half ? 2 : 0) | (blue > half ? 4 : 0);
  return most > 180 ? bits + 8 : bits;
}

function classesOf(style: Style): string {
  const classes: string[] = [];
  const [ink, paper] = style.inverse ? [style.paper ?? "paper", style.ink ?? "ink"] : [style.ink, style.paper];
  if (ink !== null) classes.push(`ink-${ink}`);
  if (paper !== null) classes.push(`on-${paper}`);
  for (const name of ["bold", "dim", "italic", "underline"] as const) if (style[name]) classes.push(name);
  return classes.join(" ");
}
