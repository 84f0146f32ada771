"""One user does the worst that limits allow for, and another one's submits are timed meanwhile.

    sudo python3 benches/crowd.py target/release/rota

5,000 connections from one user id, 2,000 streams of events that nobody reads, and arrays of 10,000 jobs with a command of 100 kB, one after the other. A
bystander submits jobs all the time. Prints the bystander's times before and in each part of it, what became of the bystander's running jobs, and the daemon's memory before
and after; the exit status says whether all of it is as promised. Needs root, because two users are needed.
"""

import argparse
import encodings.idna  # noqa: F401 - the other users cannot read this Python's own files later
import http.client
import json
import os
import pathlib
import pwd
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time

CROWD, BYSTANDER = 65534, 1
CONNECTIONS, STREAMS, INDICES, COMMAND_BYTES = 5000, 2000, 10_000, 100_000
# Freed memory goes back to the system every 16 seconds; what was freed last goes the next time.
GIVE_BACK_SECONDS = 34


class Unix(http.client.HTTPConnection):
    """HTTP over the daemon's socket."""

    def __init__(self, path):
        super().__init__("rota", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    connection = Unix(path)
    try:
        connection.request(method, target, json.dumps(body) if body is not None else None, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")
    finally:
        connection.close()


def memory_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


def as_user(uid, work):
    """Runs work in a process of another user; a pipe says when it is ready, and closing the other one ends it."""
    ready, told = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work(lambda text: os.write(told, text.encode()), wait)
        except BaseException as problem:  # a child must never go on as its parent
            print(f"crowd.py: user {uid}: {problem!r}", file=sys.stderr)
        finally:
            os._exit(0)
    os.close(told)
    os.close(wait)
    return child, ready, end


def crowd(path, port, token):
    def work(tell, wait):
        held, streams = [], []
        for number in range(CONNECTIONS):
            try:
                one = socket.socket(socket.AF_UNIX) if number % 2 else socket.socket()
                one.settimeout(10)
                one.connect(path if number % 2 else ("127.0.0.1", port))
                held.append(one)
            except OSError:
                pass
        for _ in range(STREAMS):
            try:
                one = socket.create_connection(("127.0.0.1", port), 10)
                one.sendall(f"GET /events?last_event_id=0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode())
                streams.append(one)
            except OSError:
                pass
        tell(f"{len(held)} {len(streams)}\n")
        os.read(wait, 1)

    return work


def arrays(path, count):
    def work(tell, _):
        answers = []
        for number in range(count):
            command = ["true", f"{{index}} {number} " + "x" * COMMAND_BYTES]
            body = {"command": command, "cwd": "/", "hold": True, "array": list(range(INDICES))}
            while True:
                since = time.monotonic()
                try:
                    status, answer = ask(path, "POST", "/api/v1/jobs", body)
                except OSError:
                    status, answer = 429, {"title": "too many connections"}
                # The other processes of this user have all its connections.
                if status != 429 or "connections" not in answer["title"]:
                    break
                time.sleep(0.2)
            answers.append(f"{status}:{time.monotonic() - since:.1f}s")
        tell(" ".join(answers) + "\n")

    return work


def cancel_all(path, user):
    """Cancels every job of a user that is held, on one connection."""
    connection = Unix(path)
    while True:
        connection.request("GET", f"/api/v1/jobs?user={user}&state=held&limit=1000")
        jobs = json.loads(connection.getresponse().read())
        if not jobs:
            return
        for job in jobs:
            connection.request("POST", f"/api/v1/jobs/{job['id']}/cancel")
            connection.getresponse().read()


def timed_submits(path, count):
    """Submits so many jobs, and more until the other end of the pipe is closed."""

    def work(tell, wait):
        times = []
        while len(times) < count or not select.select([wait], [], [], 0)[0]:
            since = time.monotonic()
            status, answer = ask(path, "POST", "/api/v1/jobs", {"command": ["true"], "cwd": "/", "gpus": 0, "hold": True})
            assert status == 201, answer
            times.append(time.monotonic() - since)
            time.sleep(0.01)
        times.sort()
        tell(json.dumps({"submits": len(times), "p50_ms": times[len(times) // 2] * 1e3, "p99_ms": times[int(len(times) * 0.99)] * 1e3, "max_ms": times[-1] * 1e3}))

    return work


def finished(child, ready, end=None):
    """What a process of another user has told when it has ended; it is told to end if it waits for that."""
    if end is not None:
        os.close(end)
    text = b""
    while piece := os.read(ready, 65536):
        text += piece
    os.waitpid(child, 0)
    os.close(ready)
    return text.decode()


def line_of(ready):
    text = b""
    while not text.endswith(b"\n"):
        piece = os.read(ready, 4096)
        if not piece:
            break
        text += piece
    return text.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rota")
    parser.add_argument("--arrays", type=int, default=3)
    parser.add_argument("--submits", type=int, default=500)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("crowd.py: two users are needed, and so is root: not measured", file=sys.stderr)
        return 0
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        state = os.path.join(folder, "state")
        rota = os.path.join(folder, "rota")
        subprocess.run(["cp", options.rota, rota], check=True)
        daemon = subprocess.Popen([rota, "up", "--foreground", "--state", state, "--virtual-gpus", "a100:4"], stdout=subprocess.PIPE, text=True)
        try:
            daemon.stdout.readline()
            return measure(daemon.pid, state, rota, options)
        finally:
            for job in ask(os.path.join(state, "rota.sock"), "GET", "/api/v1/jobs?state=running")[1]:
                ask(os.path.join(state, "rota.sock"), "POST", f"/api/v1/jobs/{job['id']}/cancel")
            daemon.terminate()
            daemon.wait(30)


def measure(pid, state, rota, options):
    path = os.path.join(state, "rota.sock")
    port = int(pathlib.Path(state, "http").read_text().strip().rsplit(":", 1)[1])
    made = subprocess.run(["setpriv", f"--reuid={CROWD}", f"--regid={CROWD}", "--clear-groups", rota, "token", "create", "--state", state, "--name", "crowd", "--scope", "read", "--json"],
                          capture_output=True, text=True, check=True)
    token = json.loads(made.stdout)["token"]

    def begin_jobs(tell, _):
        ids = [ask(path, "POST", "/api/v1/jobs", {"command": ["sleep", "3600"], "cwd": "/"})[1]["ids"][0] for _ in range(4)]
        tell(json.dumps(ids))

    ids = json.loads(finished(*as_user(BYSTANDER, begin_jobs)))
    deadline = time.monotonic() + 60
    while any(ask(path, "GET", f"/api/v1/jobs/{job}")[1]["state"] != "running" for job in ids):
        assert time.monotonic() < deadline, "the bystander's jobs do not start"
        time.sleep(0.1)
    times = {"before": json.loads(finished(*as_user(BYSTANDER, timed_submits(path, options.submits))))}
    time.sleep(GIVE_BACK_SECONDS)
    memory = {"before": memory_kib(pid)}
    bystander = as_user(BYSTANDER, timed_submits(path, options.submits))
    answers = finished(*as_user(CROWD, arrays(path, options.arrays))).strip()
    times["during the arrays"] = json.loads(finished(*bystander))
    memory["with the arrays"] = memory_kib(pid)
    people = as_user(CROWD, crowd(path, port, token))
    held = line_of(people[1])
    times["beside the crowd"] = json.loads(finished(*as_user(BYSTANDER, timed_submits(path, options.submits))))
    memory["with the arrays and the crowd"] = memory_kib(pid)
    os.close(people[2])
    os.waitpid(people[0], 0)
    # The arrays go, and with them what they held.
    bystander = as_user(BYSTANDER, timed_submits(path, options.submits))
    cancel_all(path, pwd.getpwuid(CROWD).pw_name)
    times["while the arrays are cancelled"] = json.loads(finished(*bystander))
    states = [ask(path, "GET", f"/api/v1/jobs/{job}")[1]["state"] for job in ids]
    # The bystander's own jobs are not what was to be given back.
    cancel_all(path, pwd.getpwuid(BYSTANDER).pw_name)
    time.sleep(GIVE_BACK_SECONDS)
    memory["after"] = memory_kib(pid)
    result = {
        "connections and streams": held, "arrays": answers, "bystander's submits": times, "bystander's jobs": states,
        "memory_kib": memory,
    }
    print(json.dumps(result, indent=2))
    is_quick = all(one["p99_ms"] < 100 for one in times.values())
    return 0 if is_quick and states == ["running"] * 4 and memory["after"] < memory["before"] * 1.2 else 1


if __name__ == "__main__":
    sys.exit(main())
