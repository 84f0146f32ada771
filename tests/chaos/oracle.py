"""What must hold after every round, and at the end of a campaign, whatever was done meanwhile."""

import time
from dataclasses import dataclass

from world import Finding

OVER = {"done", "failed", "cancelled", "lost"}
FILES_MORE_MAX = 40
MEMORY_MORE_MAX_MIB = 96
SETTLE_SECONDS = 90


@dataclass
class Expected:
    """A job that was acknowledged, and how it may end."""

    user: object
    code: int
    retries: int = 0
    # Its owner asked for its end.
    cancelled: bool = False
    # Its supervisor was killed.
    harmed: bool = False


class Oracle:
    """Knows every job that was acknowledged."""

    def __init__(self, world):
        self.world = world
        self.jobs = {}
        # Submits that were not answered: (user, body, code, retries). They are sent again, with their keys.
        self.unanswered = []
        self.first_footprint = world.footprint()
        self.refusals = 0
        self.submit_seconds = []

    def acknowledged(self, user, ids, code, retries):
        for job in ids:
            if job in self.jobs and self.jobs[job].user is not user:
                raise Finding(f"job {job} was given to two users")
            self.jobs.setdefault(job, Expected(user, code, retries))

    def listed(self):
        """Every job of the daemon, by number."""
        status, jobs = self.world.users[0].ask("GET", "/api/v1/jobs?all=true&limit=10000")
        if status != 200:
            raise Finding(f"the list of jobs: {status} {jobs}")
        return {job["id"]: job for job in jobs}

    def look(self):
        """After a round: nothing lost, nothing twice, no GPU for two, ends true, nothing left over."""
        jobs = self.listed()
        processes = self.world.processes()
        missing = [job for job in self.jobs if job not in jobs]
        if missing:
            raise Finding(f"jobs were acknowledged and are gone: {missing}")
        begun = self.marks()
        for number, expected in self.jobs.items():
            self.look_at(number, expected, jobs[number], begun)
        holders = {}
        for job in jobs.values():
            for uuid in job["gpu_uuids"] or [] if job["state"] in ("starting", "running", "stopping") else []:
                if holders.setdefault(uuid, job["id"]) != job["id"]:
                    raise Finding(f"GPU {uuid} is given to jobs {holders[uuid]} and {job['id']}")
        # The list is older than the processes: a job that was over in it has none.
        for pid, job in processes:
            if job in jobs and jobs[job]["state"] in OVER and is_alive(pid):
                raise Finding(f"job {job} is {jobs[job]['state']}, and process {pid} of it is left")

    def marks(self):
        """How often each attempt began and ended, by the jobs' own marks."""
        counts = {}
        for user in self.world.users:
            for word, job, more in user.begun():
                if word == "double":
                    raise Finding(f"job {job} found another job on its GPU {more}")
                owner = self.jobs.get(int(job))
                if owner is not None and owner.user is not user:
                    raise Finding(f"job {job} of user {owner.user.uid} ran as user {user.uid}")
                key = (word, int(job), int(more))
                counts[key] = counts.get(key, 0) + 1
        return counts

    def look_at(self, number, expected, job, begun):
        where = f"job {number} of user {expected.user.uid} ({job['state']}, exit code {job['exit_code']}, attempts {job['attempts']})"
        if self.world.is_root and job["user"] != f"uid {expected.user.uid}":
            raise Finding(f"{where} is listed as {job['user']}'s")
        for attempt in range(1, job["attempts"] + 2):
            if begun.get(("begin", number, attempt), 0) > 1:
                raise Finding(f"{where}: attempt {attempt} ran twice")
        if begun.get(("begin", number, job["attempts"] + 1), 0) and job["state"] in OVER:
            raise Finding(f"{where}: another attempt ran")
        state, code = job["state"], job["exit_code"]
        if state not in OVER:
            return
        has_ended = begun.get(("end", number, job["attempts"]), 0) == 1
        if state == "done" and not (code == 0 and expected.code == 0 and has_ended):
            raise Finding(f"{where} should have ended with {expected.code}, end seen: {has_ended}")
        if state == "failed" and expected.harmed and code is None:
            return
        if state == "failed" and not (code == expected.code != 0 and has_ended):
            logs = expected.user.ask("GET", f"/api/v1/jobs/{number}/logs")[1]
            raise Finding(f"{where} should have ended with {expected.code}, end seen: {has_ended}: {job['reason']}; it printed: {logs}")
        if state == "failed" and not expected.cancelled and job["attempts"] <= expected.retries:
            raise Finding(f"{where} should have been tried {expected.retries + 1} times")
        if state == "cancelled" and not expected.cancelled:
            raise Finding(f"{where}: nobody cancelled it: {job['reason']}")
        if state == "lost" and not expected.harmed:
            raise Finding(f"{where}: nobody touched its supervisor: {job['reason']}")

    def send_unanswered(self):
        """Submits whose answer was lost are repeated: the key makes them one."""
        unanswered, self.unanswered = self.unanswered, []
        for user, body, code, retries in unanswered:
            status, answer = user.ask("POST", "/api/v1/jobs", body)
            if status in (200, 201):
                self.acknowledged(user, answer["ids"], code, retries)
            elif status == 507 or status == 0:
                self.unanswered.append((user, body, code, retries))
            else:
                raise Finding(f"a repeated submit was refused: {status} {answer}")

    def settle(self):
        """Waits until every job is over."""
        for seconds in (SETTLE_SECONDS, SETTLE_SECONDS):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                jobs = self.listed()
                waiting = [number for number in self.jobs if jobs.get(number, {"state": "gone"})["state"] not in OVER]
                if not waiting:
                    return
                for number in waiting:
                    if jobs.get(number, {}).get("state") == "held":
                        self.jobs[number].user.ask("POST", f"/api/v1/jobs/{number}/release")
                time.sleep(0.05)
            # A policy may make jobs wait long by intention; under this one nothing does.
            self.world.rota("policy", "set", "fcfs:backfill=greedy")
        explained = [self.world.users[0].ask("GET", f"/api/v1/jobs/{number}/explain")[1] for number in waiting]
        events = [self.world.users[0].ask("GET", f"/api/v1/jobs/{number}/events")[1] for number in waiting]
        raise Finding(f"jobs do not end: {[(number, jobs[number]['state'], jobs[number]['reason']) for number in waiting]}: {explained}: {events}")

    def look_at_the_end(self):
        """When every job is over: nothing is left, and the daemon is as small as it was."""
        self.look()
        left = [(pid, job) for pid, job in self.world.processes() if is_alive(pid)]
        if left:
            raise Finding(f"processes of jobs are left: {left}")
        # What was closed by clients is noticed by the daemon a moment later.
        deadline = time.monotonic() + 10
        while True:
            files, memory = self.world.footprint()
            grown = files > self.first_footprint[0] + FILES_MORE_MAX, memory > self.first_footprint[1] + MEMORY_MORE_MAX_MIB
            if not any(grown):
                break
            if time.monotonic() > deadline:
                raise Finding(f"the daemon had {self.first_footprint} open files and MiB, and has {(files, memory)}")
            time.sleep(0.1)
        checked = self.world.rota("check", "--json")
        if checked.returncode != 0:
            raise Finding(f"rota check: {checked.stdout}{checked.stderr}")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
