import { describe, expect, test } from "vitest";
import { LINE_CHARS_MAX, LINES_MAX, Log } from "../src/logic/ansi";

const textOf = (log: Log) => log.lines.map((line) => line.spans.map((span) => span.text).join(""));
const logOf = (...chunks: string[]) => {
  const log = new Log();
  for (const chunk of chunks) log.push(chunk);
  return log;
};

describe("a log", () => {
  test("colours become class names", () => {
    const log = logOf("\u001b[1;31mred\u001b[0m plain \u001b[42mon green\u001b[m");
    expect(log.lines[0]?.spans).toEqual([
      { text: "red", style: "ink-1 bold" },
      { text: " plain ", style: "" },
      { text: "on green", style: "on-2" },
    ]);
  });

  test("an escape may be cut anywhere", () => {
    const whole = "a\u001b[38;5;196mb\u001b]0;title\u001b\\c\u001b[0md\n";
    for (let at = 0; at <= whole.length; at += 1) {
      expect(logOf(whole.slice(0, at), whole.slice(at)).lines).toEqual(logOf(whole).lines);
    }
  });

  test("wide colours become the nearest of the sixteen", () => {
    expect(logOf("\u001b[38;2;250;10;10mx").lines[0]?.spans[0]?.style).toBe("ink-9");
    expect(logOf("\u001b[38;5;2mx").lines[0]?.spans[0]?.style).toBe("ink-2");
    expect(logOf("\u001b[48;5;232mx").lines[0]?.spans[0]?.style).toBe("on-0");
    expect(logOf("\u001b[7mx").lines[0]?.spans[0]?.style).toBe("ink-paper on-ink");
  });

  test("what a terminal would obey is left out", () => {
    expect(textOf(logOf("\u001b[2J\u001b[10;10Ha\u001b]8;;http://evil/\u0007link\u001b]8;;\u0007\u001bPdata\u001b\\z"))).toEqual([
      "alinkz",
    ]);
  });

  test("an escape that never ends does not swallow the log", () => {
    expect(textOf(logOf("a\u001b]0;never\nb\u001b[12\nc"))).toEqual(["a", "b", "c"]);
  });

  test("markup is text, control characters are pictures", () => {
    expect(textOf(logOf("<script>alert(1)</script>\u0000\u0001"))).toEqual(["<script>alert(1)</script>\u2400\u2401"]);
  });

  test("a carriage return begins the line anew, as progress bars do", () => {
    expect(textOf(logOf(" 10 %\r 20 %\r", " 30 %\ndone\r\n"))).toEqual([" 30 %", "done", ""]);
  });

  test("a line keeps its beginning, and counts the rest", () => {
    const log = new Log();
    for (let pushed = 0; pushed < LINE_CHARS_MAX + 5_000; pushed += 1_000) log.push("x".repeat(1_000));
    const line = log.lines[0];
    expect(line?.length).toBe(LINE_CHARS_MAX);
    expect((line?.length ?? 0) + (line?.lost ?? 0)).toBeGreaterThanOrEqual(LINE_CHARS_MAX + 5_000);
  });

  test("old lines make room", () => {
    const log = logOf(Array.from({ length: LINES_MAX * 3 }, (_, at) => `${at}\n`).join(""));
    expect(log.lines.length).toBeLessThanOrEqual(LINES_MAX * 1.25 + 1);
    expect(log.lines.length + log.dropped).toBe(LINES_MAX * 3 + 1);
    expect(log.lines[0]?.number).toBe(log.dropped + 1);
    expect(textOf(log).at(-2)).toBe(String(LINES_MAX * 3 - 1));
  });
});
