"""Three workers in network namespaces, as on three machines: gangs, a node that is cut off and comes back, and callers that are refused.

    python3 tests/cluster/three_workers.py target/debug/rota [--cut-seconds 60]

Needs root and `ip`; makes a bridge and three namespaces, and removes them. Trains with PyTorch where `/usr/bin/python3` has it. Everything
is stopped by its process id.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TORCH_PYTHON = "/usr/bin/python3"
LOST_AFTER_SECONDS = 4
PATIENCE_SECONDS = 120
NAMES = ["anna", "berta", "clara"]


def until(what, condition):
    """Waits until something is so, and gives it back."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE_SECONDS} s for {what}")


def ip(*arguments):
    """Calls `ip`."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """A bridge, and a namespace for each node with a cable to it."""

    def __init__(self):
        number = os.getpid() % 250
        self.prefix, self.bridge, self.cables = f"10.213.{number}", f"rotab{number}", {}
        self.namespaces = {name: f"rota-{number}-{name}" for name in NAMES}
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.prefix}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for place, (name, namespace) in enumerate(self.namespaces.items(), 2):
            cable = f"rv{number}-{name[0]}"
            ip("netns", "add", namespace)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("link", "set", cable, "master", self.bridge, "up")
            ip("-n", namespace, "addr", "add", f"{self.prefix}.{place}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")
            ip("-n", namespace, "link", "set", "lo", "up")
            self.cables[name] = cable

    def cut(self, name):
        """Pulls the cable of a node."""
        ip("link", "set", self.cables[name], "down")

    def mend(self, name):
        """Plugs it in again."""
        ip("link", "set", self.cables[name], "up")

    def remove(self):
        """Takes everything away."""
        for namespace in self.namespaces.values():
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", namespace)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", self.bridge)


class Cluster:
    """A daemon and its three workers."""

    def __init__(self, rota, folder, network, cut_seconds):
        self.rota, self.folder, self.network, self.cut_seconds = rota, folder, network, cut_seconds
        self.state, self.workers = os.path.join(folder, "state"), {}
        self.settings = os.path.join(folder, "rota.toml")
        with open(self.settings, "w") as settings:
            settings.write(
                "policy = 'priority:preempt=true,age=0'\n[jobs]\nmin_run_seconds = 0.2\nrestart_seconds = 0.0\n"
                f"[workers]\nlisten = '{network.prefix}.1:0'\nlost_after_seconds = {LOST_AFTER_SECONDS}\n"
            )
        self.up()
        for name in NAMES:
            self.start_worker(name)
        until("six GPUs", lambda: len(self.gpus("free")) == 6)

    def up(self, port=0, *options):
        """Starts the daemon and waits until it is ready."""
        text = open(self.settings).read().replace(".1:0'", f".1:{port}'")
        with open(self.settings, "w") as settings:
            settings.write(text)
        command = [self.rota, "up", "--foreground", "--state", self.state, "--config", self.settings, *options]
        log = open(os.path.join(self.folder, "daemon.log"), "a")
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.daemon.stdout.readline()
        assert line.startswith("rota is ready"), line
        self.address = line.split("workers on ")[1].split(" ")[0]
        self.token = os.path.join(self.state, "worker-token")

    def worker_command(self, name, *more):
        """The command line of a worker in its namespace."""
        inside = ["ip", "netns", "exec", self.network.namespaces[name]]
        own = ["--state", os.path.join(self.folder, name), "--virtual-gpus", "a100:2"]
        return [*inside, self.rota, "worker", "--join", self.address, "--token-file", self.token, "--name", name, *own, *more]

    def start_worker(self, name):
        """Starts a worker in its namespace."""
        log = open(os.path.join(self.folder, f"{name}.log"), "a")
        self.workers[name] = subprocess.Popen(self.worker_command(name), stdout=log, stderr=log)

    def call(self, *arguments):
        """Standard output of a command."""
        environment = {**os.environ, "ROTA_STATE": self.state}
        done = subprocess.run([self.rota, *arguments], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def gpus(self, state):
        """The GPUs in a state."""
        return [gpu for gpu in json.loads(self.call("gpus", "--json")) if gpu["state"] == state]

    def nodes(self):
        """The names of the nodes."""
        return sorted(node["name"] for node in json.loads(self.call("node", "list", "--json")))

    def submit(self, *arguments):
        """Submits a job and gives back its number."""
        return json.loads(self.call("submit", "--json", *arguments))["id"]

    def job(self, number):
        """One job."""
        return json.loads(self.call("show", str(number), "--json"))

    def until_state(self, number, *states):
        """Waits until a job is in one of these states."""
        return until(f"job {number} to be {states}", lambda: (job := self.job(number))["state"] in states and job)

    def end(self):
        """Ends the daemon, the workers and what still runs of their jobs, by process id."""
        for process in [self.daemon, *self.workers.values()]:
            process.terminate()
            process.wait()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = open(f"/proc/{pid}/environ").read() + open(f"/proc/{pid}/cmdline").read()
                if self.folder in words and int(pid) != os.getpid():
                    os.kill(int(pid), signal.SIGKILL)


def lines(path):
    """The lines of a file that may not be there yet."""
    with contextlib.suppress(FileNotFoundError):
        return open(path).read().splitlines()
    return []


def check_gpus(cluster):
    """Each GPU has its node, a number and a UUID of its own."""
    gpus = json.loads(cluster.call("gpus", "--json"))
    assert sorted(gpu["node"] for gpu in gpus) == sorted(NAMES * 2), gpus
    assert len({gpu["uuid"] for gpu in gpus}) == 6 and sorted(gpu["index"] for gpu in gpus) == list(range(6)), gpus


def check_job(cluster):
    """A job runs on a node, and its output is read at the daemon."""
    number = cluster.submit("--", "sh", "-c", "echo on $(ip -o -4 addr show eth0 | wc -l); echo gpu $CUDA_VISIBLE_DEVICES; exit 3")
    job = cluster.until_state(number, "failed")
    assert job["exit_code"] == 3, job
    output = cluster.call("logs", str(number)).splitlines()
    assert output[0] == "on 1" and output[1] == f"gpu {job['gpu_uuids'][0]}", output


def check_gang(cluster):
    """A gang of six trains over three nodes, stops on all of them at one step for a more urgent job, and goes on from there."""
    journal, steps = os.path.join(cluster.folder, "training.txt"), 150
    environment = ["--env", f"PYTHONPATH={ROOT}/python", "--env", "GLOO_SOCKET_IFNAME=eth0", "--env", "OMP_NUM_THREADS=1"]
    script = [TORCH_PYTHON, os.path.join(HERE, "training.py"), cluster.folder, str(steps)]
    gang = cluster.submit("-g", "6", "--preemptible", *environment, "--", *script)
    until("all ranks to begin", lambda: len(lines(journal)) == 3 or cluster.job(gang)["state"] == "failed")
    assert len(lines(journal)) == 3, cluster.call("logs", str(gang))
    urgent = cluster.submit("-g", "1", "--priority", "9", "--", "sleep", "0.5")
    cluster.until_state(urgent, "done")
    job = cluster.until_state(gang, "done", "failed", "lost")
    assert job["state"] == "done", (job, cluster.call("logs", str(gang)))
    told = [line.split() for line in lines(journal)]
    left = [line for line in told if line[0] == "left" and line[5] == "1"]
    assert len(left) == 3 and len({line[1] for line in left}) == 1, f"the ranks stopped at different steps: {told}"
    again = [line for line in told if line[0] == "begin" and line[5] != "1"]
    assert {line[1] for line in again} == {left[0][1]}, f"the ranks went on elsewhere: {told}"
    done = [line for line in told if line[0] == "done"]
    assert sorted(line[3] for line in done) == ["0", "1", "2"] and {line[1] for line in done} == {str(steps)}, told
    print(f"gang of 6 over 3 nodes: all ranks stopped at step {left[0][1]} and went on to {steps}")


def check_cut(cluster):
    """A node that is cut off is lost; its job ends meanwhile, its end arrives when the node is back, and nothing runs twice."""
    ran = os.path.join(cluster.folder, "ran.txt")
    script = f"echo $ROTA_JOB_ID begin >> {ran}; sleep 3; echo $ROTA_JOB_ID end >> {ran}; exit 7"
    jobs = [cluster.submit("--", "sh", "-c", script) for _ in range(6)]
    until("all jobs to begin", lambda: len(lines(ran)) >= 6)
    by_job = {gpu["jobs"][0]: gpu["node"] for gpu in json.loads(cluster.call("gpus", "--json")) if gpu["jobs"]}
    began = time.monotonic()
    cluster.network.cut("berta")
    until("berta to be lost", lambda: len(cluster.gpus("lost")) == 2)
    seen = time.monotonic() - began
    assert seen < LOST_AFTER_SECONDS + 2 + 1, f"the loss was seen after {seen:.1f} s"
    there = [job for job in jobs if by_job.get(job) == "berta"]
    assert len(there) == 2, by_job
    for job in jobs:
        if job not in there:
            assert cluster.until_state(job, "failed")["exit_code"] == 7
    until("the jobs on berta to end there", lambda: len(lines(ran)) == 12)
    time.sleep(max(0.0, cluster.cut_seconds - (time.monotonic() - began)))
    assert all(cluster.job(job)["state"] in ("starting", "running") for job in there), "an end was guessed"
    refused = subprocess.run([cluster.rota, "node", "forget", "anna", "--state", cluster.state], capture_output=True, text=True)
    assert refused.returncode == 1 and "connected" in refused.stderr, refused
    cut = time.monotonic() - began
    cluster.network.mend("berta")
    for job in there:
        assert cluster.until_state(job, "failed")["exit_code"] == 7
    until("all GPUs to be free", lambda: len(cluster.gpus("free")) == 6)
    assert len(lines(ran)) == 12, f"something ran twice: {lines(ran)}"
    back = time.monotonic() - began - cut
    told = f"its ends arrived {back:.1f} s after it was back, and nothing ran twice"
    print(f"node cut off for {cut:.0f} s: seen after {seen:.1f} s with lost_after {LOST_AFTER_SECONDS} s; {told}")


def check_restarts(cluster):
    """Daemon and worker are killed while jobs run: the jobs run on, and each end is told once."""
    ran = os.path.join(cluster.folder, "restarts.txt")
    go = os.path.join(cluster.folder, "go")
    script = f"echo $ROTA_JOB_ID begin >> {ran}; until [ -e {go} ]; do sleep 0.1; done; echo $ROTA_JOB_ID end >> {ran}"
    jobs = [cluster.submit("--", "sh", "-c", script) for _ in range(6)]
    until("all jobs to begin", lambda: len(lines(ran)) == 6)
    port = cluster.address.rsplit(":", 1)[1]
    cluster.daemon.kill()
    cluster.daemon.wait()
    cluster.workers["clara"].kill()
    cluster.workers["clara"].wait()
    # The jobs of clara end while neither daemon nor worker is there.
    open(go, "w").close()
    until("all jobs to end", lambda: len(lines(ran)) == 12)
    cluster.up(port)
    cluster.start_worker("clara")
    for job in jobs:
        assert cluster.until_state(job, "done")["exit_code"] == 0
    until("all GPUs to be free", lambda: len(cluster.gpus("free")) == 6)
    assert len(lines(ran)) == 12, f"something ran twice: {lines(ran)}"


def check_saved(cluster):
    """A job that saves through its lease goes on elsewhere when its node is lost; what is left of it is killed when the node is back."""
    journal, end = os.path.join(cluster.folder, "saved.txt"), os.path.join(cluster.folder, "end")
    script = ["python3", os.path.join(ROOT, "tests/leases/training.py"), journal, end, "1000"]
    job = cluster.submit("--preemptible", "--", *script)
    until("a commit", lambda: any(line.startswith("committed") for line in lines(journal)))
    node = next(gpu["node"] for gpu in json.loads(cluster.call("gpus", "--json")) if job in gpu["jobs"])
    cluster.network.cut(node)
    until("the second lease", lambda: any(line.startswith("begin") and line.endswith(" 2") for line in lines(journal)))
    begun = next(line.split() for line in lines(journal) if line.startswith("begin") and line.endswith(" 2"))
    committed = [int(line.split()[1]) for line in lines(journal) if line.startswith("committed") and line.endswith(" 1")]
    assert int(begun[1]) in committed, (begun, committed)
    cluster.network.mend(node)
    # The steps of the first lease end when its node is back, and the job is done once.
    open(end, "w").close()
    assert cluster.until_state(job, "done", "failed", "lost")["state"] == "done"
    until("all GPUs to be free", lambda: len(cluster.gpus("free")) == 6)
    os.remove(end)


def check_forget(cluster):
    """A node that an administrator says is gone leaves with its jobs; a worker that comes back after all kills what is left of them."""
    beat = os.path.join(cluster.folder, "beat")
    jobs = [cluster.submit("--", "sh", "-c", f"while :; do touch {beat}-$ROTA_JOB_ID; sleep 0.1; done") for _ in range(6)]
    until("all jobs to run", lambda: all(os.path.exists(f"{beat}-{job}") for job in jobs))
    there = [job for gpu in json.loads(cluster.call("gpus", "--json")) if gpu["node"] == "clara" for job in gpu["jobs"]]
    cluster.workers["clara"].kill()
    cluster.workers["clara"].wait()
    until("clara to be lost", lambda: len(cluster.gpus("lost")) == 2)
    cluster.call("node", "forget", "clara")
    for job in there:
        assert "clara is gone" in cluster.until_state(job, "lost")["reason"]
    until("clara to be forgotten", lambda: cluster.nodes() == ["anna", "berta"])
    others = [job for job in jobs if job not in there]
    assert all(cluster.job(job)["state"] == "running" for job in others)
    cluster.start_worker("clara")

    def are_killed():
        for job in there:
            with contextlib.suppress(FileNotFoundError):
                os.remove(f"{beat}-{job}")
        time.sleep(0.5)
        return not any(os.path.exists(f"{beat}-{job}") for job in there)

    until("what is left to be killed", are_killed)
    cluster.call("cancel", *map(str, others))
    until("all GPUs to be free", lambda: len(cluster.gpus("free")) == 6)


def check_home(cluster):
    """A daemon with a GPU of its own: gangs span it and its workers, and no GPU has the number of another."""
    port = cluster.address.rsplit(":", 1)[1]
    cluster.daemon.kill()
    cluster.daemon.wait()
    cluster.up(port, "--virtual-gpus", "a100:1")
    until("seven GPUs", lambda: len(cluster.gpus("free")) == 7)
    gpus = json.loads(cluster.call("gpus", "--json"))
    assert len({gpu["index"] for gpu in gpus}) == 7 and gpus[0]["index"] == 0, gpus
    gang = cluster.submit("-g", "7", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR; sleep 1")
    assert cluster.until_state(gang, "done", "failed")["state"] == "done", cluster.job(gang)
    assert cluster.call("logs", str(gang)) == f"0 of 4 at {cluster.network.prefix}.1\n", cluster.call("logs", str(gang))
    own = cluster.submit("--gpu-ids", "0", "--", "true")
    assert cluster.until_state(own, "done", "failed")["state"] == "done"


def hello(cluster, **changes):
    """Speaks to the daemon as a worker would, and gives back its answer."""
    secret = open(cluster.token).read().split()[1]
    message = dict(protocol=1, version="0.0.0", token=secret, name="dora", place="p", boot_id="b", address=None, devices=[], runs=[])
    message = {**message, "wall_ms": int(time.time() * 1000), **changes}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = cluster.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as stream:
        text = json.dumps(message).encode()
        stream.sendall(struct.pack(">I", len(text)) + text)
        head = stream.recv(4)
        return json.loads(stream.recv(struct.unpack(">I", head)[0]))


def check_refusals(cluster):
    """Callers that cannot be nodes are told why."""
    for changes, part in [
        ({"token": "guess"}, "token is not this daemon's"),
        ({"protocol": 99, "version": "9.9.9"}, "9.9.9"),
        ({"name": "anna"}, "another worker is connected as anna"),
        ({"name": "no name"}, "is no name for a node"),
    ]:
        answer = hello(cluster, **changes)
        assert part in answer["refused"]["reason"], (changes, answer)
    done = subprocess.run(cluster.worker_command("anna", "--state", os.path.join(cluster.folder, "second")), capture_output=True, text=True)
    assert done.returncode == 1 and "another worker is connected as anna" in done.stderr, done
    done = subprocess.run(cluster.worker_command("anna"), capture_output=True, text=True)
    assert done.returncode == 1 and "already runs on" in done.stderr, done
    bad = os.path.join(cluster.folder, "bad-token")
    for text, code, part in [("nonsense", 2, "rota-worker-1"), (f"rota-worker-1 x sha256:{'0' * 64}", None, "another certificate")]:
        with open(bad, "w") as file:
            file.write(text)
        command = [cluster.rota, "worker", "--join", cluster.address, "--token-file", bad, "--name", "emil"]
        process = subprocess.Popen([*command, "--state", os.path.join(cluster.folder, "emil")], stderr=subprocess.PIPE, text=True)
        assert part in process.stderr.readline()
        if code is None:
            process.terminate()
        else:
            assert process.wait() == code
        process.wait()
    own = cluster.call("token", "create", "--name", "emils", "--scope", "worker").split()[1]
    assert "accepted" in hello(cluster, token=own, name="emil")
    cluster.call("token", "revoke", "emils")
    assert "was revoked" in hello(cluster, token=own, name="emil")["refused"]["reason"]
    assert "accepted" in hello(cluster, wall_ms=int(time.time() * 1000) - 600_000)
    until("a warning about clocks", lambda: "clock of node dora is 600 s behind" in cluster.call("status"))


def main():
    """Runs all checks, one after the other."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("three_workers: not run: it needs root and `ip` to make network namespaces")
        return 1 if os.environ.get("CI") == "true" else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser()
    parser.add_argument("rota")
    parser.add_argument("--cut-seconds", type=float, default=0.0, help="how long a node is cut off, at least")
    options = parser.parse_args()
    rota = os.path.abspath(options.rota)
    network = Network()
    try:
        # The nodes of a gang share the folder, as they would share a file system.
        with tempfile.TemporaryDirectory(prefix="rota-cluster-") as folder:
            cluster = Cluster(rota, folder, network, options.cut_seconds)
            try:
                for check in [check_gpus, check_job, check_gang, check_cut, check_restarts, check_saved, check_forget, check_home, check_refusals]:
                    began = time.monotonic()
                    check(cluster)
                    print(f"{check.__name__}: held, {time.monotonic() - began:.1f} s", flush=True)
            except BaseException:
                for name in ["daemon", *NAMES]:
                    print(f"--- {name}.log", *lines(os.path.join(folder, f"{name}.log"))[-10:], sep="\n")
                raise
            finally:
                cluster.end()
    finally:
        network.remove()
    return 0


sys.exit(main())
