// Requests. Paths are relative to the page, so that it works behind a proxy that serves it under a prefix.

import { signal } from "@preact/signals";
import type { Session } from "./contract";

/** Who is signed in: undefined until the daemon has said, null if nobody. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether the daemon ended a session that was there: it was restarted, the time is up, or the token was revoked. */
export const hasEnded = signal(false);

/** What went wrong, in words for people. Status 0: the daemon was not reached. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    title: string,
  ) {
    super(title);
  }
}

export const wordsOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
export const isAbort = (error: unknown) => error instanceof DOMException && error.name === "AbortError";

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Ask {
  method?: string;
  query?: Query;
  body?: unknown;
  signal?: AbortSignal | null;
  headers?: Record<string, string>;
}

function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const params = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return params.size > 0 ? `${path}?${params}` : path;
}

async function problemOf(response: Response): Promise<Problem> {
  const title = `the daemon answered ${response.status}`;
  try {
    const said = (await response.json()) as { type?: string; title?: string };
    return new Problem(response.status, said.type ?? "unknown", said.title ?? title);
  } catch {
    return new Problem(response.status, "unknown", title);
  }
}

/** The answer, whatever it is made of. */
export async function open(path: string, ask: Ask = {}): Promise<Response> {
  const headers = new Headers(ask.headers);
  const csrf = session.peek()?.csrf;
  if (csrf && ask.method && ask.method !== "GET") headers.set("X-Rota-CSRF", csrf);
  if (ask.body !== undefined) headers.set("Content-Type", "application/json");
  const init: RequestInit = { method: ask.method ?? "GET", headers, credentials: "same-origin", cache: "no-store" };
  if (ask.body !== undefined) init.body = JSON.stringify(ask.body);
  if (ask.signal) init.signal = ask.signal;
  let response: Response;
  try {
    response = await fetch(address(path, ask.query), init);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Problem(0, "unreachable", "the daemon does not answer");
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401 && session.peek()) {
    hasEnded.value = true;
    session.value = null;
  }
  throw problem;
}

/** The answer as JSON. */
export async function call<T>(path: string, ask: Ask = {}): Promise<T> {
  const response = await open(`api/v1/${path}`, ask);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** One page of a list, and where the next is: the cursor in its `Link` header. */
export async function page<T>(path: string, ask: Ask = {}): Promise<{ rows: T[]; next: string | null }> {
  const response = await open(`api/v1/${path}`, ask);
  return { rows: (await response.json()) as T[], next: nextCursor(response.headers.get("Link")) };
}

export function nextCursor(link: string | null): string | null {
  for (const part of (link ?? "").split(/,\s*(?=<)/)) {
    const found = /^\s*<([^>]*)>.*;\s*rel="?next"?/.exec(part);
    if (found?.[1] !== undefined) return new URL(found[1], "http://page/").searchParams.get("cursor");
  }
  return null;
}
