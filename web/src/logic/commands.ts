// What the command palette offers for some typed words: the best first.

export interface Command {
  key: string;
  title: string;
  /** What kind of thing it is: a page, a job, an action. */
  kind: string;
  /** Further words by which it is found. */
  also?: string;
  run(): void;
}

const LISTED_MAX = 12;

/** How well a text fits a word: a beginning is better than a beginning inside, and that better than any place. Null: not at all. */
function fitOf(text: string, word: string): number | null {
  const at = text.indexOf(word);
  if (at < 0) return null;
  if (at === 0) return 3;
  return /[\s\-_/[=]/.test(text[at - 1] ?? "") ? 2 : 1;
}

/** Commands that fit every word, those that fit best first, otherwise in their own order. */
export function found(commands: readonly Command[], typed: string): Command[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return commands.slice(0, LISTED_MAX);
  const scored: { command: Command; score: number; at: number }[] = [];
  for (const [at, command] of commands.entries()) {
    const title = command.title.toLowerCase();
    const rest = `${command.kind} ${command.also ?? ""}`.toLowerCase();
    let score = 0;
    for (const word of words) {
      const inTitle = fitOf(title, word);
      const inRest = fitOf(rest, word);
      if (inTitle === null && inRest === null) {
        score = -1;
        break;
      }
      score += Math.max((inTitle ?? 0) * 2, inRest ?? 0);
    }
    if (score >= 0) scored.push({ command, score, at });
  }
  return scored
    .sort((a, b) => b.score - a.score || a.at - b.at)
    .slice(0, LISTED_MAX)
    .map(({ command }) => command);
}
