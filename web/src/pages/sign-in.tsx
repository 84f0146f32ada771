// Signing in with a token. The daemon answers with a cookie that scripts cannot read; the token itself is kept nowhere.

import { useState } from "preact/hooks";
import { call, hasEnded, Problem, session, wordsOf } from "../api/client";
import type { Session } from "../api/contract";
import { Logo } from "../parts/logo";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setIsBusy(true);
    setProblem(null);
    try {
      hasEnded.value = false;
      session.value = await call<Session>("session", { method: "POST", body: { token: token.trim() } });
    } catch (error) {
      setProblem(error instanceof Problem && error.status === 401 ? "no such token, or it has expired" : wordsOf(error));
      setIsBusy(false);
    }
  };
  return (
    <main class="sign-in" id="main">
      <form onSubmit={submit} class="panel">
        <Logo />
        <h1>Sign in</h1>
        {hasEnded.value && (
          <p role="status">Your session is over: its time is up, or its token was revoked. You come back to where you were.</p>
        )}
        <label class="field">
          token
          <input
            name="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
            aria-describedby="token-help"
            aria-invalid={problem !== null}
          />
        </label>
        {problem && (
          <p class="field-problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="main" disabled={isBusy}>
          {isBusy ? "signing in …" : "sign in"}
        </button>
        <div id="token-help" class="help">
          <p>This command makes a token. Run it on the machine of the queue:</p>
          <pre>rota token create --name browser</pre>
          <p>
            With <code>--scope read</code> the token can only look, with <code>submit</code> it can change your own jobs, with{" "}
            <code>admin</code> everybody’s jobs. The daemon’s own token is in the file <code>token</code> of its state directory.
          </p>
        </div>
      </form>
    </main>
  );
}
