// How far a training is, read from the lines that it writes. Nothing is assumed of the program: the usual forms are tried, and the
// newest value of each is kept.

export interface TrainingProgress {
  epoch: number | null;
  epochs: number | null;
  step: number | null;
  steps: number | null;
  loss: number | null;
  /** Steps a second. */
  rate: number | null;
}

export const NO_PROGRESS: TrainingProgress = { epoch: null, epochs: null, step: null, steps: null, loss: null, rate: null };

const NUMBER = "[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[-+]?\\d+)?";
const AFTER_NAME = "[\"']?\\s*[:= ]\\s*";

const EPOCH = new RegExp(`\\bepochs?${AFTER_NAME}\\[?(\\d+(?:\\.\\d+)?)(?:\\s*(?:/|of)\\s*(\\d+))?`, "i");
const STEP = new RegExp(
  `\\b(?:(?:global|train(?:ing)?)[_ ]?)?(?:step|iter(?:ation)?|batch)s?${AFTER_NAME}\\[?(\\d+)(?:\\s*(?:/|of)\\s*(\\d+))?`,
  "i",
);
const LOSS = new RegExp(`\\b(?:train(?:ing)?[_ /])?loss${AFTER_NAME}(${NUMBER}|nan)`, "i");
const RATE = new RegExp(
  `(${NUMBER})\\s*(?:it|iters?|steps?|batch(?:es)?)/s(?:ec(?:ond)?)?\\b|\\b(?:steps?|it|iters?)_per_sec(?:ond)?${AFTER_NAME}(${NUMBER})`,
  "i",
);
/** Seconds a step, as progress bars write it when steps are slow. */
const SECONDS = new RegExp(`(${NUMBER})\\s*s/(?:it|iter|step|batch)\\b`, "i");
/** A progress bar: `45%|####    | 450/1000 [`. */
const BAR = /\d+%\|[^|]*\|\s*(\d+)\/(\d+)\s*\[/;

const numberOf = (text: string | undefined) => (text === undefined || text === "" ? null : Number(text));

/** What a line says, added to what was known. */
export function readLine(known: TrainingProgress, line: string): TrainingProgress {
  // A line that is longer is no message of progress, and must not cost anything.
  if (line.length > 2_000) return known;
  const next = { ...known };
  const epoch = EPOCH.exec(line);
  if (epoch) {
    next.epoch = numberOf(epoch[1]);
    next.epochs = numberOf(epoch[2]) ?? known.epochs;
  }
  const step = BAR.exec(line) ?? STEP.exec(line);
  if (step) {
    next.step = numberOf(step[1]);
    next.steps = numberOf(step[2]) ?? known.steps;
  }
  const loss = LOSS.exec(line);
  if (loss) next.loss = loss[1]?.toLowerCase() === "nan" ? Number.NaN : numberOf(loss[1]);
  const rate = RATE.exec(line);
  if (rate) next.rate = numberOf(rate[1] ?? rate[2]);
  else {
    const seconds = numberOf(SECONDS.exec(line)?.[1]);
    if (seconds) next.rate = 1 / seconds;
  }
  return next;
}

/** What the text of a log says, the last word of each kind. */
export function progressOf(text: string): TrainingProgress {
  return text.split(/[\r\n]+/).reduce(readLine, NO_PROGRESS);
}

export const hasProgress = (progress: TrainingProgress) => Object.values(progress).some((value) => value !== null);

/** From 0 to 1, where the total is known. */
export function partDone(progress: TrainingProgress): number | null {
  const { epoch, epochs, step, steps } = progress;
  if (epoch !== null && epochs) return Math.min(1, Math.max(0, epoch / epochs));
  if (step !== null && steps) return Math.min(1, step / steps);
  return null;
}
