// Honest words where there is nothing to show, or nothing could be shown.

import type { ComponentChildren } from "preact";

export const Empty = (props: { children: ComponentChildren }) => <div class="notice">{props.children}</div>;

export const Loading = (props: { what: string }) => (
  <div class="notice" aria-busy="true">
    loading {props.what} …
  </div>
);

export function Trouble(props: { what: string; problem: string; again?: () => void }) {
  return (
    <div class="notice trouble" role="alert">
      <span>
        {props.what}: {props.problem}
      </span>
      {props.again && (
        <button type="button" onClick={props.again}>
          try again
        </button>
      )}
    </div>
  );
}
