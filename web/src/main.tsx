import { effect } from "@preact/signals";
import { render } from "preact";
import { session } from "./api/client";
import { App } from "./app";
import { findSession, start, stop } from "./live/link";
import { followPaletteKey } from "./palette";
import { follow } from "./route";
import { followShortcuts } from "./shortcuts";
import "./styles/theme.css";
import "./styles/shell.css";
import "./styles/tables.css";
import "./styles/queue.css";
import "./styles/now.css";
import "./styles/job.css";
import "./styles/simulate.css";
import "./styles/pages.css";
import "./styles/log.css";
import { followTheme } from "./theme";

followTheme();
follow();
followShortcuts();
followPaletteKey();
void findSession();
effect(() => {
  if (session.value) start();
  else stop();
});

const place = document.getElementById("app");
if (place) render(<App />, place);
