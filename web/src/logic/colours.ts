// Colours of jobs and users: seven hues that people who are colour-blind tell apart (Okabe and Ito's), each in three tones. A colour is
// never the only sign of anything.

const HUES: readonly [string, string, string][] = [
  ["#0072b2", "#3f97cc", "#2a6a99"],
  ["#e69f00", "#f2bf55", "#b87f00"],
  ["#009e73", "#3fc09b", "#2c8468"],
  ["#cc79a7", "#dfa5c6", "#a85a86"],
  ["#56b4e9", "#8fcdf1", "#2f8fc6"],
  ["#d55e00", "#e88a43", "#b4602a"],
  ["#8a7fc7", "#b0a8de", "#7166b3"],
];

const TONES = HUES.length * 3;

/** Jobs that follow each other get different hues; the tone changes when the hues begin again. */
export function colourOfJob(id: number): string {
  const place = Math.abs(Math.trunc(id)) % TONES;
  return HUES[place % HUES.length]?.[Math.floor(place / HUES.length)] ?? "#888888";
}

/** A name always has the same colour. */
export function colourOfName(name: string): string {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return colourOfJob((hash >>> 0) % TONES);
}

const light = (channel: number) => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);

function luminance(colour: string): number {
  const channel = (at: number) => light(Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

/** Black or white, whichever reads better on it. */
export const inkOn = (colour: string) => (luminance(colour) > 0.3 ? "#10151a" : "#ffffff");
