// The frame: navigation, who is signed in, whether the daemon is heard, and the page.

import { useEffect, useRef } from "preact/hooks";
import { call, hasEnded, session } from "./api/client";
import { link, status } from "./live/store";
import { History } from "./pages/history";
import { JobPage } from "./pages/job";
import { Now } from "./pages/now";
import { SignIn } from "./pages/sign-in";
import { Simulate } from "./pages/simulate";
import { TimelinePage } from "./pages/timeline";
import { openPalette, Palette } from "./palette";
import { Questions } from "./parts/dialog";
import { Logo } from "./parts/logo";
import { Toasts } from "./parts/toast";
import { hrefOf, PAGES, type PageName, route } from "./route";
import { Help, lastJob, openHelp } from "./shortcuts";
import { theme, toggleTheme } from "./theme";

const LINK_WORDS = { connecting: "connecting", live: "live", reconnecting: "reconnecting" };

function LinkMark() {
  return (
    <span class={`link link-${link.value}`} role="status" aria-live="polite">
      <i aria-hidden="true" />
      {LINK_WORDS[link.value]}
    </span>
  );
}

async function signOut(): Promise<void> {
  try {
    await call("session", { method: "DELETE" });
  } catch {
    // A session that is over already is what was wanted.
  }
  hasEnded.value = false;
  session.value = null;
}

function Navigation() {
  const current = route.value.page;
  const counts: Partial<Record<PageName, number>> = status.value ? { now: status.value.running + status.value.waiting } : {};
  return (
    <nav aria-label="pages">
      {PAGES.map((page, at) => (
        <a
          key={page.name}
          href={hrefOf(page.name, page.name === "job" ? lastJob.value : null)}
          aria-current={current === page.name ? "page" : undefined}
          aria-keyshortcuts={String(at + 1)}
          title={`key ${at + 1}`}
        >
          {page.title}
          {counts[page.name] ? <span class="count">{counts[page.name]?.toLocaleString("en")}</span> : null}
        </a>
      ))}
    </nav>
  );
}

function Top() {
  const who = session.value;
  return (
    <header class="top">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        skip to the page
      </button>
      <Logo />
      <Navigation />
      <div class="top-right">
        <LinkMark />
        <button
          type="button"
          class="bare"
          aria-label={theme.value === "dark" ? "light theme" : "dark theme"}
          title="light or dark (t)"
          onClick={toggleTheme}
        >
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" class="bare palette-button" aria-label="commands" title="commands (Ctrl+K)" onClick={openPalette}>
          ⌘
        </button>
        <button type="button" class="bare" aria-label="keys" title="keys (?)" onClick={openHelp}>
          ?
        </button>
        {who && (
          <span class="who">
            <bdi>{who.user}</bdi> <span class="chip">{who.scope}</span>
            <button type="button" class="quiet" onClick={() => void signOut()}>
              sign out
            </button>
          </span>
        )}
      </div>
    </header>
  );
}

function Page() {
  const { page, item } = route.value;
  if (page === "timeline") return <TimelinePage />;
  if (page === "job") return <JobPage key={item ?? ""} item={item} />;
  if (page === "history") return <History />;
  if (page === "simulate") return <Simulate />;
  return <Now />;
}

export function App() {
  const { page, item } = route.value;
  const main = useRef<HTMLElement>(null);
  const shown = useRef(page);
  useEffect(() => {
    const title = PAGES.find((candidate) => candidate.name === page)?.title ?? "";
    document.title = `${title}${item && page === "job" ? ` ${item}` : ""} · Rota`;
    // A new page begins at its top, for eyes and for screen readers.
    if (shown.current !== page) {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
    shown.current = page;
  }, [page, item]);
  if (session.value === undefined) {
    return (
      <main class="sign-in">
        <p class="notice" role="status">
          {link.value === "reconnecting" ? "The daemon does not answer; trying again …" : "connecting …"}
        </p>
      </main>
    );
  }
  if (session.value === null) return <SignIn />;
  return (
    <>
      <Top />
      {link.value === "reconnecting" && (
        <div class="banner" role="alert">
          The daemon does not answer: what you see is old. Trying again …
        </div>
      )}
      <main id="main" ref={main} tabIndex={-1} class={`page-${page}`}>
        <Page />
      </main>
      <Questions />
      <Help />
      <Palette />
      <Toasts />
    </>
  );
}
