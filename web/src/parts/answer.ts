// Something asked of the daemon for as long as a part of the page shows it.

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, wordsOf } from "../api/client";

export interface Answer<T> {
  value: T | null;
  problem: string | null;
  isLoading: boolean;
  again(): void;
}

/** Asks when `key` changes, and again when `tick` does; the last answer stays until there is a new one for the same key. */
export function useAnswer<T>(key: string | null, ask: (stop: AbortSignal) => Promise<T>, tick: unknown = 0): Answer<T> {
  const [state, setState] = useState<{ key: string | null; value: T | null; problem: string | null; isLoading: boolean }>({
    key: null,
    value: null,
    problem: null,
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `tick` and `round` are there to ask again.
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    setState((old) => ({ key, value: old.key === key ? old.value : null, problem: null, isLoading: true }));
    latest
      .current(stop.signal)
      .then((value) => !stop.signal.aborted && setState({ key, value, problem: null, isLoading: false }))
      .catch((error) => {
        if (isAbort(error) || stop.signal.aborted) return;
        setState((old) => ({ ...old, problem: wordsOf(error), isLoading: false }));
      });
    return () => stop.abort();
  }, [key, tick, round]);
  const fits = state.key === key;
  return {
    value: fits ? state.value : null,
    problem: fits ? state.problem : null,
    isLoading: fits ? state.isLoading : true,
    again: () => setRound((n) => n + 1),
  };
}

/** A value that follows another after it has been still for a while. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(() => value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
