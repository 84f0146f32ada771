// Where we are: the part of the address behind `#`, so that links work wherever the page is served.

import { signal } from "@preact/signals";

export type PageName = "now" | "timeline" | "job" | "history" | "simulate";

export interface Route {
  page: PageName;
  /** What the page shows, as a job's number. */
  item: string | null;
  query: URLSearchParams;
}

export const PAGES: readonly { name: PageName; title: string }[] = [
  { name: "now", title: "Now" },
  { name: "timeline", title: "Timeline" },
  { name: "job", title: "Job" },
  { name: "history", title: "History" },
  { name: "simulate", title: "Simulate" },
];

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [first = "", item] = path.split("/");
  const page = PAGES.find((candidate) => candidate.name === first)?.name ?? "now";
  return { page, item: item ? safeDecode(item) : null, query: new URLSearchParams(query) };
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

export function follow(): void {
  addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
  });
}

export const hrefOf = (page: PageName, item?: string | number | null) =>
  item === undefined || item === null ? `#/${page}` : `#/${page}/${encodeURIComponent(item)}`;

export function go(page: PageName, item?: string | number | null): void {
  location.hash = hrefOf(page, item);
}

/** Keeps a page's own choices in the address, without a step in the browser's history. */
export function rememberInAddress(choices: Record<string, string | null>): void {
  const { page, item, query } = route.peek();
  const next = new URLSearchParams(query);
  for (const [key, value] of Object.entries(choices)) {
    if (value === null || value === "") next.delete(key);
    else next.set(key, value);
  }
  const text = next.toString();
  const hash = hrefOf(page, item) + (text === "" ? "" : `?${text}`);
  if (hash !== location.hash) history.replaceState(null, "", hash);
  route.value = { page, item, query: next };
}
