// Short messages about what was just done; screen readers read them out.

import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
  kind: "said" | "problem";
}

const SHOWN_MS = 6_000;
const toasts = signal<Toast[]>([]);
let next = 0;

export function say(text: string, kind: Toast["kind"] = "said"): void {
  next += 1;
  const id = next;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.kind}`}>
          <span>{toast.text}</span>
          <button type="button" class="bare" aria-label="dismiss" onClick={() => dismiss(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
