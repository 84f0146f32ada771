// Numbers and times as people read them. Unknown is a dash, never 0.

import type { Text } from "../api/contract";

export const UNKNOWN = "–";

const two = (n: number) => String(n).padStart(2, "0");

/** `8 s`, `3 min 12 s`, `2 h 05 min`, `3 d 4 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  const s = Math.max(0, seconds);
  if (s >= 0.05 && s < 9.95 && s !== Math.round(s)) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** The same in its largest unit, where there is little room. */
export function brief(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 * 2 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export const monthOf = (date: Date) => MONTHS[date.getMonth()] ?? "";
export const dayOf = (date: Date) => `${DAYS[date.getDay()]} ${date.getDate()} ${monthOf(date)}`;
export const clockOf = (date: Date) => `${two(date.getHours())}:${two(date.getMinutes())}`;
export const clockSecondsOf = (date: Date) => `${clockOf(date)}:${two(date.getSeconds())}`;

/** A moment in local time: the clock alone if it is today's, with the day otherwise. */
export function moment(iso: string | number | null | undefined, now = Date.now()): string {
  if (iso === null || iso === undefined) return UNKNOWN;
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return clockSecondsOf(date);
  const year = date.getFullYear() === today.getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${dayOf(date)}${year} ${clockOf(date)}`;
}

/** The daemon's reasons have times in UTC in them; people read their own. */
export function inLocalTime(text: string, now = Date.now()): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g, (found) => moment(found, now));
}

export function secondsBetween(from: string | null | undefined, to: string | number | null | undefined): number | null {
  if (!from || to === null || to === undefined) return null;
  return (new Date(to).getTime() - new Date(from).getTime()) / 1000;
}

export function mib(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 1024) return `${Math.round(value)} MiB`;
  const gib = value / 1024;
  return `${gib >= 100 || Number.isInteger(gib) ? Math.round(gib) : gib.toFixed(1)} GiB`;
}

/** With so many significant digits as a person can use, and thousands apart. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  const digits = size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: Number.isInteger(value) ? 0 : digits, maximumFractionDigits: digits });
}

export const withUnit = (value: number | null | undefined, unit: string) =>
  value === null || value === undefined ? UNKNOWN : `${number(value)} ${unit}`;

export const percent = (fraction: number | null | undefined) =>
  fraction === null || fraction === undefined ? UNKNOWN : `${Math.round(fraction * 100)} %`;

export function usd(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** Energy in the unit that keeps it readable. */
export function wattHours(wh: number | null | undefined): string {
  if (wh === null || wh === undefined) return UNKNOWN;
  return wh >= 1000 ? `${number(wh / 1000)} kWh` : `${number(wh)} Wh`;
}

export const plural = (count: number, noun: string) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Arguments that are not UTF-8 come as base64; what is not text in them is shown as such. */
export function plain(text: Text): string {
  if (typeof text === "string") return text;
  const bytes = Uint8Array.from(atob(text.base64), (c) => c.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

/** The command as a shell would take it. */
export function shell(command: readonly Text[]): string {
  return command
    .map(plain)
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(" ");
}

/** What a `datetime-local` field holds. */
export function toField(ms: number): string {
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${clockOf(date)}`;
}
