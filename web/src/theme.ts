// Light or dark: as the system says, unless somebody chose. This is the only thing the page keeps.

import { signal } from "@preact/signals";

export type Theme = "light" | "dark";

const KEY = "rota-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(): Theme | null {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : null;
  } catch {
    return null;
  }
}

export const theme = signal<Theme>("light");

function apply(): void {
  theme.value = chosen() ?? (system.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme.value;
}

export function followTheme(): void {
  apply();
  system.addEventListener("change", apply);
}

export function toggleTheme(): void {
  const next = theme.peek() === "dark" ? "light" : "dark";
  try {
    // Back to what the system says anyway: nothing needs to be kept.
    if (next === (system.matches ? "dark" : "light")) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Storage may be forbidden; the choice then lasts as long as the page.
  }
  theme.value = next;
  document.documentElement.dataset.theme = next;
}

/** A colour of the theme, for canvases. */
export const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
