// Why a program died, in its own last words: the line after a traceback, or a line that speaks of an error.

const TRACEBACK = /^\s*Traceback \(most recent call last\):/;
const TROUBLE =
  /^(?:\S+: )?(?:fatal|error|panicked|segmentation fault|killed|abort(?:ed)?|out of memory|command not found)\b|panicked at|: (?:not found|No such file or directory|Permission denied|command not found)\b|^E\s{2,}\S/i;
const LENGTH_MAX = 400;

const short = (line: string) => (line.length > LENGTH_MAX ? `${line.slice(0, LENGTH_MAX)}…` : line);

/** The last line of the last traceback; otherwise the last line that looks like trouble; otherwise nothing. */
export function lastWords(text: string): string | null {
  const lines = text.split(/\r?\n/).map((line) => line.trimEnd());
  const begin = lines.findLastIndex((line) => TRACEBACK.test(line));
  if (begin >= 0) {
    const after = lines.slice(begin + 1).find((line) => line !== "" && !/^\s/.test(line));
    if (after) return short(after);
  }
  const trouble = lines.findLast((line) => TROUBLE.test(line.trimStart()));
  return trouble ? short(trouble.trim()) : null;
}
