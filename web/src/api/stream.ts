// Server-sent events over fetch: unlike `EventSource` it takes events of every kind, says why it ended, and can be told to stop.

import { open } from "./client";

export interface Sent {
  id: string | null;
  data: string;
}

/** Cuts a stream of text into events. Pieces may end anywhere. */
export class EventCutter {
  private rest = "";
  private id: string | null = null;
  private data: string[] = [];

  push(piece: string): Sent[] {
    const events: Sent[] = [];
    const lines = (this.rest + piece).split(/\r\n|\n|\r/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) events.push({ id: this.id, data: this.data.join("\n") });
        this.data = [];
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(5).replace(/^ /, ""));
      } else if (line.startsWith("id:")) {
        this.id = line.slice(3).trim();
      }
    }
    return events;
  }
}

/** The daemon sends a sign of life every 15 s; silence for longer is a dead connection. */
const SILENCE_MAX_MS = 45_000;

export interface Listener {
  onOpen(): void;
  onEvent(event: Sent): void;
}

/** Reads until the stream ends or is stopped. */
export async function listen(path: string, lastId: string | null, stop: AbortSignal, listener: Listener): Promise<void> {
  const silence = new AbortController();
  const either = AbortSignal.any([stop, silence.signal]);
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (lastId !== null) headers["Last-Event-ID"] = lastId;
  const response = await open(path, { headers, signal: either });
  listener.onOpen();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const cutter = new EventCutter();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    while (reader) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
      const { value, done } = await reader.read();
      if (done) return;
      for (const event of cutter.push(value)) listener.onEvent(event);
    }
  } finally {
    clearTimeout(timer);
  }
}
