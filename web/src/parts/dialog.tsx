// Questions that must be answered first, in the browser's own modal dialog: it keeps the focus and closes with Escape.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Question {
  title: string;
  text: string;
  yes: string;
  isGrave: boolean;
  /** A number to be given with the answer. */
  amount: number | null;
  onYes(amount: number): void;
}

const question = signal<Question | null>(null);

export function ask(asked: Omit<Question, "amount" | "isGrave"> & { amount?: number; isGrave?: boolean }): void {
  question.value = { amount: null, isGrave: false, ...asked };
}

export function Modal(props: { label: string; onClose(): void; children: ComponentChildren; class?: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const onClose = useRef(props.onClose);
  onClose.current = props.onClose;
  useEffect(() => {
    const shown = dialog.current;
    if (!shown) return;
    const closed = () => onClose.current();
    shown.addEventListener("close", closed);
    shown.showModal();
    // The browser reports `close` a moment later. By then the same dialog may be open again, and must stay open.
    return () => {
      shown.removeEventListener("close", closed);
      shown.close();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.class}
      aria-label={props.label}
      onClick={(event) => event.target === dialog.current && props.onClose()}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div class="dialog-body">{props.children}</div>
    </dialog>
  );
}

export function Questions() {
  const asked = question.value;
  const field = useRef<HTMLInputElement>(null);
  if (!asked) return null;
  const close = () => {
    question.value = null;
  };
  const answer = (event: Event) => {
    event.preventDefault();
    close();
    asked.onYes(Number(field.current?.value ?? 0));
  };
  return (
    <Modal label={asked.title} onClose={close}>
      <form onSubmit={answer}>
        <h2>
          <bdi>{asked.title}</bdi>
        </h2>
        <p>{asked.text}</p>
        {asked.amount !== null && (
          <label class="field">
            priority
            <input ref={field} type="number" step="1" required value={asked.amount} />
          </label>
        )}
        <div class="buttons">
          <button type="button" onClick={close}>
            back
          </button>
          <button type="submit" class={asked.isGrave ? "grave" : "main"}>
            {asked.yes}
          </button>
        </div>
      </form>
    </Modal>
  );
}
