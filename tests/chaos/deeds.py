"""What users, administrators and accidents do to the queue. Each deed draws what it does from the campaign's random numbers."""

import os
import signal
import time

from world import GPUS_ALL, GPUS_FEWER, SCRIPT, USERS_PYTHON, Finding

DAY_SECONDS = 86400


class Deeds:
    """Everything that can happen in a round."""

    def __init__(self, world, oracle, dice):
        self.world = world
        self.oracle = oracle
        self.dice = dice
        self.keys = 0
        self.is_full = False
        self.done = {}
        common = [self.submit] * 9 + [self.act_on_own] * 2 + [self.act_on_others] * 2
        accidents = [self.kill_daemon] * 2 + [self.restart_daemon, self.kill_supervisor, self.lose_gpu, self.fill_disk]
        rest = [self.idle_clients, self.say_nonsense, self.change_policy, self.back_up, self.damage_database, self.damage_run, self.set_clock]
        self.all = common + accidents + rest

    def round(self):
        """A few deeds, one after the other."""
        for _ in range(self.dice.randint(3, 6)):
            deed = self.dice.choice(self.all)
            self.done[deed.__name__] = self.done.get(deed.__name__, 0) + 1
            deed()
        if self.is_full:
            self.free_disk()
        for user in self.world.users:
            user.order(do="drop")

    def someone(self):
        return self.dice.choice(self.world.users)

    # What users do.

    def submit(self):
        user = self.someone()
        for _ in range(self.dice.randint(1, 4)):
            code, retries = self.dice.choice((0, 0, 0, 0, 1, 7)), self.dice.choice((0, 0, 0, 1))
            self.keys += 1
            body = {
                "command": ["sh", "-c", SCRIPT, "job", *self.arguments(user, code)],
                "cwd": "/",
                "env": [["PATH", os.defpath]],
                "gpus": self.dice.choice((0, 1, 1, 1, 2)),
                "key": f"key-{user.uid}-{self.keys}",
                "retries": retries,
                "retry_delay_seconds": 0.05,
                "grace_seconds": 0.3,
                "priority": self.dice.randint(-2, 2),
                "preemptible": self.dice.random() < 0.4,
                "hold": self.dice.random() < 0.1,
            }
            self.make_leave_well(body, user, code)
            if self.dice.random() < 0.5:
                body["estimate_seconds"] = self.dice.choice((0.1, 1, 60))
            if body["gpus"] == 1 and self.dice.random() < 0.25:
                body["gpu_ids"] = self.dice.sample(range(3), self.dice.randint(1, 2))
            if self.dice.random() < 0.1:
                body["array"] = [1, 2, 3]
            self.send(user, body, code, retries)

    def arguments(self, user, code):
        """What every job is told: where its marks go, where the locks of GPUs are, how long it works, and how it ends."""
        return [str(user.marks), str(self.world.locks), str(self.dice.choice((0, 0.05, 0.2, 0.5))), str(code)]

    def make_leave_well(self, body, user, code):
        """Some jobs save and leave when they are told to: by a signal, or by their lease."""
        kind = self.dice.random()
        if kind < 0.2:
            body |= {"preemptible": True, "preempt": {"signal": "USR1", "grace_seconds": 2, "to": self.dice.choice(("main", "all"))}}
        elif kind < 0.4 and USERS_PYTHON.exists():
            body |= {"preemptible": True, "grace_seconds": 5, "command": [str(USERS_PYTHON), str(self.world.leased), *self.arguments(user, code)]}

    def send(self, user, body, code, retries):
        since = time.monotonic()
        status, answer = user.ask("POST", "/api/v1/jobs", body)
        if status in (200, 201):
            self.oracle.submit_seconds.append(time.monotonic() - since)
            self.oracle.acknowledged(user, answer["ids"], code, retries)
        elif status == 0 or (status == 507 and self.is_full):
            self.oracle.unanswered.append((user, body, code, retries))
        else:
            raise Finding(f"a submit was refused: {status} {answer}")

    def draw_job(self, is_fitting):
        jobs = [number for number, expected in self.oracle.jobs.items() if is_fitting(expected)]
        # The latest are the ones that may still be under way.
        return self.dice.choice(jobs[-12:]) if jobs else None

    def act_on_own(self):
        user = self.someone()
        number = self.draw_job(lambda expected: expected.user is user)
        if number is None:
            return
        verb = self.dice.choice(("cancel", "cancel", "hold", "release"))
        if verb == "cancel":
            # Before it is asked for: the answer may be lost.
            self.oracle.jobs[number].cancelled = True
        status, answer = user.ask("POST", f"/api/v1/jobs/{number}/{verb}")
        if status >= 500 and not self.is_full:
            raise Finding(f"{verb} of job {number}: {status} {answer}")

    def act_on_others(self):
        user = self.someone()
        number = self.draw_job(lambda expected: expected.user is not user)
        if not self.world.is_root:
            return
        requests = [("POST", "/api/v1/drain", {}), ("PUT", "/api/v1/policy", {"policy": "random"}), ("POST", "/api/v1/shutdown", None)]
        if number is not None:
            requests += [("POST", f"/api/v1/jobs/{number}/{verb}", None) for verb in ("cancel", "hold", "release", "retry")]
            requests += [("GET", f"/api/v1/jobs/{number}/logs", None), ("PATCH", f"/api/v1/jobs/{number}", {"priority": -9})]
        method, target, body = self.dice.choice(requests)
        status, answer = user.ask(method, target, body)
        if not (400 <= status < 500 or (status == 507 and self.is_full) or status == 0):
            raise Finding(f"user {user.uid} may {method} {target}: {status} {answer}")
        self.oracle.refusals += 1

    def idle_clients(self):
        said = self.dice.choice(("", "GET /api", "POST /api/v1/jobs HTTP/1.1\r\nhost: rota\r\ncontent-length: 100000\r\n\r\n{"))
        self.someone().order(do="idle", count=self.dice.randint(10, 40), said=said)

    def say_nonsense(self):
        said = "".join(chr(self.dice.randint(0, 255)) for _ in range(200))
        user = self.someone()
        user.order(do="idle", count=2, said=said)
        body = self.dice.choice(([], {"command": 7}, {"command": ["x"], "cwd": "relative"}, {"command": [], "cwd": "/", "gpus": -1}))
        status, answer = user.ask("POST", "/api/v1/jobs", body)
        if not 400 <= status < 500:
            raise Finding(f"nonsense was answered with {status} {answer}")

    # What happens to the daemon.

    def up(self):
        self.world.start()
        self.oracle.send_unanswered()

    def kill_daemon(self):
        if self.dice.random() < 0.5:
            time.sleep(self.dice.random() * 0.2)
        self.world.kill()
        if self.is_full:
            self.free_disk()
        if self.dice.random() < 0.5:
            time.sleep(self.dice.random() * 0.4)
        self.up()

    def restart_daemon(self):
        if self.is_full:
            self.free_disk()
        self.world.stop()
        self.up()

    def kill_supervisor(self):
        number = self.draw_job(lambda expected: True)
        if number is None:
            return
        status, job = self.world.users[0].ask("GET", f"/api/v1/jobs/{number}")
        pid = self.world.supervisor(number, job["attempts"]) if status == 200 and job["state"] == "running" else None
        if pid is not None:
            # Before it is done: the daemon may notice at once.
            self.oracle.jobs[number].harmed = True
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def lose_gpu(self):
        """A GPU is gone after a restart, or back."""
        self.world.gpus = GPUS_FEWER if self.world.gpus == GPUS_ALL else GPUS_ALL
        self.restart_daemon()

    def set_clock(self):
        """The wall clock is days ahead or behind after a restart."""
        self.world.clock_seconds = self.dice.choice((0, 3 * DAY_SECONDS, -3 * DAY_SECONDS))
        self.restart_daemon()

    def fill_disk(self):
        if not self.world.has_disk or self.is_full:
            return
        self.is_full = True
        with open(self.world.state / "ballast", "ab", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        ballast.write(b"\0" * size)
                except OSError:
                    pass

    def free_disk(self):
        (self.world.state / "ballast").unlink()
        self.is_full = False
        # The daemon tries again by itself; submits that it refused are sent again.
        deadline = time.monotonic() + 30
        while True:
            status, answer = self.world.users[0].ask("GET", "/api/v1/status") if self.world.daemon.poll() is None else (200, {})
            if status == 200 and not any("full" in warning for warning in answer.get("warnings", [])):
                break
            if time.monotonic() > deadline:
                raise Finding(f"the disk has room again, and the daemon says {status} {answer}")
            time.sleep(0.05)
        if self.world.daemon.poll() is None:
            self.oracle.send_unanswered()

    def change_policy(self):
        done = self.world.rota("policy", "set", self.dice.choice(("fcfs", "priority", "las:first=0.2", "rr:quantum=0.3", self.world.policy)))
        if done.returncode != 0 and not self.is_full:
            raise Finding(f"rota policy set: {done.stderr}")

    # What happens to files.

    def back_up(self):
        file = self.world.folder / "backup.db"
        file.unlink(missing_ok=True)
        done = self.world.rota("backup", str(file))
        if done.returncode != 0 and not self.is_full:
            raise Finding(f"rota backup: {done.stderr}")

    def damage_database(self):
        """The database is damaged while the daemon is down, and comes back from a backup."""
        if self.is_full:
            self.free_disk()
        self.world.stop()
        self.back_up()
        database = self.world.state / "rota.db"
        with open(database, "r+b") as file:
            file.write(b"\xff" * 4096)
        refused = self.world.rota("up", "--foreground", "--virtual-gpus", self.world.gpus, "--port", "0")
        if refused.returncode != 1 or "restore it from a backup" not in refused.stderr:
            raise Finding(f"a damaged database: exit code {refused.returncode}: {refused.stderr}")
        restored = self.world.rota_json("restore", str(self.world.folder / "backup.db"))
        if restored["drained"]:
            raise Finding(f"a backup of the last moment disagrees with the run directories: {restored}")
        for kept in self.world.state.glob("rota.db.before-*"):
            kept.unlink()
        self.up()

    def damage_run(self):
        """Files of a job that is over are damaged, and the scheduler's image is gone, while the daemon is down."""
        if self.is_full:
            self.free_disk()
        jobs = self.oracle.listed()
        over = [number for number, job in jobs.items() if job["state"] in ("done", "failed") and job["attempts"] > 0]
        self.world.stop()
        if over:
            number = self.dice.choice(over)
            record = self.world.state / "jobs" / str(number) / str(jobs[number]["attempts"]) / "exit.json"
            record.write_bytes(b"\0" * 100)
        if self.dice.random() < 0.5:
            database = self.world.database()
            database.execute("DELETE FROM images")
            database.commit()
            database.close()
        self.up()
