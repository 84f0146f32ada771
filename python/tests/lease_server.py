"""The lease service of a daemon, without the daemon: it does as a test says, and checks what it is told."""

from __future__ import annotations

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Optional

TOKEN = "a secret of this run"


class LeaseServer:
    """One job's leases. `environment` is what the job is started with."""

    def __init__(self, folder: Path, max_seconds: float = 3600.0) -> None:
        self.folder = folder
        self.max_seconds = max_seconds
        self.lease = 0
        self.world = 1
        self.step = 0
        self.path: Optional[str] = None
        self.commits: list[tuple[int, int]] = []
        self.completed: Optional[int] = None
        self.told: list[dict[str, Any]] = []
        self.failure: Optional[tuple[int, str]] = None
        self.extras: dict[str, Any] = {"uuids": [], "seconds_left": max_seconds}
        self.changed = threading.Condition(threading.RLock())
        self._notices: list[str] = []
        self._is_stopping = False
        self._last_step: Optional[int] = None
        self._steps_told: dict[int, int] = {}
        self._server: Optional[ThreadingHTTPServer] = None
        self.port = 0
        self.up()

    def up(self) -> None:
        """Starts to listen, on the port it had before."""
        handler = type("Handler", (_Handler,), {"leases": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def down(self) -> None:
        """Listens no more. Open streams of notices end."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            with self.changed:
                self.changed.notify_all()

    @property
    def is_up(self) -> bool:
        return self._server is not None

    def next_lease(self) -> dict[str, str]:
        """Begins another lease, and returns the environment of its run."""
        with self.changed:
            self.lease += 1
            self._notices, self._is_stopping, self._last_step, self._steps_told = [], False, None, {}
            environment = {
                "ROTA_LEASE_ADDR": f"127.0.0.1:{self.port}",
                "ROTA_LEASE_TOKEN": TOKEN,
                "ROTA_LEASE": str(self.lease),
                "ROTA_JOB_ID": "7",
                "ROTA_CHECKPOINT_DIR": str(self.folder),
            }
            if self.path is not None:
                environment["ROTA_RESUME_FROM"] = str(self.folder / self.path)
            return environment

    def stop(self, grace_seconds: float = 60.0) -> None:
        """Asks the present run to leave."""
        with self.changed:
            self._is_stopping = True
            self._notices.append(json.dumps({"notice": "stop", "grace_seconds": grace_seconds}))
            self.changed.notify_all()

    def extend(self, max_seconds: float) -> None:
        with self.changed:
            self.max_seconds = max_seconds
            self._notices.append(json.dumps({"notice": "extended", "max_seconds": max_seconds}))
            self.changed.notify_all()

    def set_extras(self, usable: int, seconds_left: float) -> None:
        """Offers the job so many extra GPUs, or asks for some back."""
        with self.changed:
            self.extras = {"uuids": [f"GPU-{number}" for number in range(usable)], "seconds_left": seconds_left}
            self._notices.append(json.dumps({"notice": "extras"}))
            self.changed.notify_all()

    def until(self, holds: Callable[[], bool], patience_seconds: float = 60.0) -> None:
        """Waits until something was told that makes this true."""
        with self.changed:
            if not self.changed.wait_for(holds, patience_seconds):
                raise AssertionError(f"waited in vain; told: {self.told}")

    def said(self, what: str) -> list[dict[str, Any]]:
        """What the job has told under one heading."""
        return [told for told in self.told if told["what"] == what]

    # What is answered.

    def answer(self, what: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.told.append({"what": what, **asked})
            self.changed.notify_all()
            if self.failure is not None:
                return self.failure[0], {"error": self.failure[1]}
            if asked.get("lease") != self.lease:
                return 409, {"error": f"lease {asked.get('lease')} is over; lease {self.lease} holds"}
            return getattr(self, f"_{what.replace('-', '_')}")(asked)  # type: ignore[no-any-return]

    def _grant(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.world = max(self.world, asked["world"])
        path = None if self.path is None else str(self.folder / self.path)
        return 200, {"lease": self.lease, "max_seconds": self.max_seconds, "steps_done": self.step, "resume_from": path}

    def _renew(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        refusal = self._progress(asked)
        if refusal[0] != 200:
            return refusal
        if self._is_stopping and self._last_step is None:
            self._last_step = max(self._steps_told.values()) + 1
        state, grace_seconds = ("stop", 60) if self._is_stopping else ("go", None)
        last_step = self._last_step if self.world > 1 else None
        return 200, {"state": state, "max_seconds": self.max_seconds, "last_step": last_step, "grace_seconds": grace_seconds}

    def _progress(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if asked["rank"] >= self.world:
            return 400, {"error": f"rank {asked['rank']} is not below {self.world}"}
        if asked["steps"] < self._steps_told.get(asked["rank"], 0):
            return 400, {"error": "the steps fall"}
        self._steps_told[asked["rank"]] = asked["steps"]
        return 200, {}

    def _commit(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if asked["step"] < self.step or not (self.folder / asked["path"]).exists():
            return 400, {"error": f"step {asked['step']} is before {self.step}, or there is no {asked['path']}"}
        self.step, self.path = asked["step"], asked["path"]
        self.commits.append((self.lease, self.step))
        return 200, {"step": self.step}

    def _complete(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.completed = asked["steps"]
        return 200, {}

    def _extras(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, self.extras

    def _give_back(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, {}

    def _stop(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Of tests only: the run itself has the job stopped, so that it happens after a certain step."""
        self.stop()
        return 200, {}

    def notice(self, lease: int, index: int) -> Optional[str]:
        """A line of the stream, as soon as there is one; empty as a sign of life, None at its end."""
        with self.changed:
            self.changed.wait_for(lambda: lease != self.lease or len(self._notices) > index or not self.is_up, timeout=5.0)
            if lease != self.lease or not self.is_up:
                return None
            return self._notices[index] if len(self._notices) > index else ""


class _Handler(BaseHTTPRequestHandler):
    leases: LeaseServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_known():
            return self._say(401, {"error": "the token is not of this run"})
        return self._say(*self.leases.answer(self.path.rpartition("/")[2], json.loads(body)))

    def do_GET(self) -> None:
        if not self._is_known():
            return self._say(401, {"error": "the token is not of this run"})
        lease = int(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["lease"][0])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        index = 0
        try:
            while (line := self.leases.notice(lease, index)) is not None:
                index += 1 if line else 0
                piece = line.encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        return None

    def _is_known(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def _say(self, status: int, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
