"""The lease service, for the trainings of tests and benches, with nothing but the standard library."""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request


class Lease:
    """The lease of this run. `stop` is set when the job is asked to leave."""

    def __init__(self):
        self.address = "http://" + os.environ["ROTA_LEASE_ADDR"]
        self.headers = {"Authorization": "Bearer " + os.environ["ROTA_LEASE_TOKEN"], "Content-Type": "application/json"}
        self.number = int(os.environ["ROTA_LEASE"])
        self.stop = threading.Event()

    def call(self, name, **body):
        """Asks until the daemon answers: it may be away for a while."""
        data = json.dumps({"lease": self.number, **body}).encode()
        while True:
            try:
                request = urllib.request.Request(f"{self.address}/lease/v1/{name}", data, self.headers)
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                sys.exit(f"{name}: {error.code} {error.read().decode()}")
            except OSError:
                time.sleep(0.02)

    def save(self, step):
        """Saves the number of the step in a new file and commits it."""
        name = f"ckpt-{step}-{self.number}"
        with open(os.path.join(os.environ["ROTA_CHECKPOINT_DIR"], name), "w") as saved:
            saved.write(str(step))
        self.call("commit", step=step, path=name)

    def listen(self):
        """Begins to wait for the word that the job must leave."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while not self.stop.is_set():
            try:
                request = urllib.request.Request(f"{self.address}/lease/v1/notice?lease={self.number}", headers=self.headers)
                with urllib.request.urlopen(request, timeout=60) as lines:
                    if any(b'"stop"' in line for line in lines):
                        self.stop.set()
            except OSError:
                time.sleep(0.02)
