// A real daemon with invented GPUs on a free port of loopback, with a state of its own, and what the tests do with it.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, type Page, test } from "@playwright/test";

const BINARY = resolve(process.env.ROTA_BINARY ?? "../target/debug/rota");
const READY_MS = 30_000;

const run = promisify(execFile);

/** The first line of a process that has an address in it. */
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = "";
    const timer = setTimeout(() => failed(new Error(`not ready: ${said}`)), READY_MS);
    const hear = (piece: Buffer) => {
      said += piece.toString();
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (!address) return;
      clearTimeout(timer);
      found(address);
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    child.on("exit", (code) => failed(new Error(`ended with ${code}: ${said}`)));
  });
}

async function end(child: ChildProcess | null): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const over = once(child, "exit");
  child.kill("SIGTERM");
  await over;
}

export class Daemon {
  readonly state = mkdtempSync(join(tmpdir(), "rota-web-"));
  /** Where the page is. */
  url = "";
  private port = "0";
  private process: ChildProcess | null = null;

  async start(): Promise<void> {
    const args = ["up", "--foreground", "--state", this.state, "--virtual-gpus", "a100:2,t4:2", "--port", this.port];
    this.process = spawn(BINARY, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.url = await addressOf(this.process);
    this.port = new URL(this.url).port;
  }

  /** The daemon only: jobs run on under their supervisors. */
  async stop(): Promise<void> {
    await end(this.process);
    this.process = null;
  }

  async remove(): Promise<void> {
    if (this.process) {
      const left = JSON.parse(await this.rota("queue", "--json")) as { id: number }[];
      if (left.length > 0) await this.rota("cancel", ...left.map((job) => String(job.id)));
      for (const job of left) await this.rota("wait", String(job.id)).catch(() => "");
    }
    await this.stop();
    rmSync(this.state, { recursive: true, force: true });
  }

  get token(): string {
    return readFileSync(join(this.state, "token"), "utf8").trim();
  }

  async rota(command: string, ...args: string[]): Promise<string> {
    const { stdout } = await run(BINARY, [command, "--state", this.state, ...args], { maxBuffer: 64 << 20 });
    return stdout;
  }

  /** A shell script as a job; gives its number. */
  async submit(name: string, script: string, ...options: string[]): Promise<number> {
    return Number((await this.rota("submit", "--name", name, ...options, "--", "sh", "-c", script)).trim());
  }

  async signIn(page: Page, hash = ""): Promise<void> {
    await page.goto(`${this.url}/${hash}`);
    await this.giveToken(page);
  }

  async giveToken(page: Page): Promise<void> {
    await page.getByLabel("token", { exact: true }).fill(this.token);
    await page.getByRole("button", { name: "sign in" }).click();
    await expect(page.getByText("live", { exact: true })).toBeVisible();
  }
}

/** One daemon for the tests of a file. */
export function daemonForFile(): Daemon {
  const daemon = new Daemon();
  test.beforeAll(() => daemon.start());
  test.afterAll(() => daemon.remove());
  return daemon;
}

/** Nothing of the page may be refused by its policy, and no script may fail. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text());
  });
  return complaints;
}
