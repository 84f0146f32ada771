"""The example workloads in every backend that is here: they learn, can be stopped at any time, and go on as if nothing had happened.

python3 -m unittest discover examples/workloads
"""

import concurrent.futures
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import arrays  # noqa: E402
import checkpoint  # noqa: E402
import cnn  # noqa: E402
import compare  # noqa: E402
import lstm  # noqa: E402
from backend import Backend  # noqa: E402

WORKLOADS = ("matmul", "cnn", "lstm", "boosting")
# Far above what is needed: a workload that hangs must not hang the tests.
SECONDS_MAX = 120


def here(backend):
    return backend == "pure" or importlib.util.find_spec(backend) is not None


def start(workload, backend, folder, *options):
    """A workload as a process of its own."""
    line = [sys.executable, str(HERE / f"{workload}.py"), "--id", "7", "--checkpoint-dir", str(folder), *options]
    environment = {**os.environ, "ROTA_EXAMPLE_BACKEND": backend}
    return subprocess.Popen(line, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    """Exit code and output of a process."""
    try:
        output, _ = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    return process.returncode, output


def stop_after_first_epoch(process):
    """Sends SIGTERM once the first epoch is told of; returns the exit code."""
    watchdog = threading.Timer(SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if line.startswith("epoch 1/"):
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        return process.wait()
    finally:
        watchdog.cancel()
        process.kill()
        process.stdout.close()


def figures(output):
    """The figures of each epoch by its number, without anything that depends on time."""
    found = re.findall(r"^epoch (\d+)/\d+  (.*?)(?:  \S+ Gflop/s)?  \S+ s$", output, re.MULTILINE)
    return {int(epoch): text for epoch, text in found}


def life(workload, backend):
    """Stops a workload, goes on with it, and compares with one that was never stopped; returns what is wrong, if anything."""
    with tempfile.TemporaryDirectory() as stopped, tempfile.TemporaryDirectory() as whole:
        code = stop_after_first_epoch(start(workload, backend, stopped, "--epochs", "100000"))
        if code != 143:
            return f"exit code {code} after SIGTERM"
        header, _ = checkpoint.read(pathlib.Path(stopped) / f"{workload}-7.ckpt")
        epochs = header["epoch"] + 1
        code, resumed = finish(start(workload, backend, stopped, "--epochs", str(epochs)))
        if code != 0 or "resumed after epoch" not in resumed:
            return f"resumed with exit code {code}: {resumed}"
        code, fresh = finish(start(workload, backend, whole, "--epochs", str(epochs)))
        if code != 0 or list(figures(fresh)) != list(range(1, epochs + 1)):
            return f"ended with exit code {code}: {fresh}"
        if figures(resumed) != {epochs: figures(fresh)[epochs]}:
            return f"resumed, it came to {figures(resumed)}; never stopped, to {figures(fresh)}"
        if os.listdir(stopped) != [f"{workload}-7.ckpt"]:
            return f"left behind: {os.listdir(stopped)}"
        losses = [float(text.split()[1]) for text in figures(fresh).values()]
        if workload != "matmul" and losses[-1] >= losses[0]:
            return f"the loss does not fall: {losses}"
        return None


class Lives(unittest.TestCase):
    def test_in_every_backend_that_is_here(self):
        for backend in filter(here, ("pure", "numpy", "torch")):
            with concurrent.futures.ThreadPoolExecutor(len(WORKLOADS)) as pool:
                lives = {workload: pool.submit(life, workload, backend) for workload in WORKLOADS}
            for workload, ended in lives.items():
                with self.subTest(workload=workload, backend=backend):
                    self.assertIsNone(ended.result())


class Refusals(unittest.TestCase):
    def run_boosting(self, folder, *options):
        return finish(start("boosting", "pure", folder, *options))

    def test_a_checkpoint_of_something_else_is_refused_and_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_boosting(folder, "--epochs", "1")[0], 0)
            path = pathlib.Path(folder) / "boosting-7.ckpt"
            before = path.read_bytes()
            code, output = self.run_boosting(folder, "--epochs", "2", "--seed", "5")
            self.assertEqual((code, path.read_bytes()), (2, before))
            self.assertIn("has seed `0`, this run `5`", output)
            path.write_bytes(before[:-8])
            code, output = self.run_boosting(folder, "--epochs", "2")
            self.assertEqual((code, path.read_bytes()), (2, before[:-8]))
            self.assertIn("damaged", output)

    def test_bad_options(self):
        with tempfile.TemporaryDirectory() as folder:
            for options in (["--epochs", "0"], ["--id", "../7"], ["--size", "huge"]):
                self.assertEqual(self.run_boosting(folder, *options)[0], 2, options)
            self.assertEqual(os.listdir(folder), [])


class Gradients(unittest.TestCase):
    """The gradients written out by hand against differences of the loss."""

    def check(self, training, batch, loss_of):
        _, gradients = training.gradients(*batch)
        for name, parameter in training.parameters.items():
            for row, column in {(0, 0), (parameter.shape[0] - 1, parameter.shape[1] - 1)}:
                entry, losses = parameter.rows[row][column], []
                for shift in (1e-5, -1e-5):
                    parameter.rows[row][column] = entry + shift
                    losses.append(loss_of(training.gradients(*batch)[0]))
                parameter.rows[row][column] = entry
                expected = (losses[0] - losses[1]) / 2e-5
                self.assertAlmostEqual(gradients[name].rows[row][column], expected, places=6, msg=f"{name} at {row}, {column}")

    def test_cnn(self):
        images = cnn.Images(arrays.arrays_of(Backend("pure")), 8, (2, 3), 2, 1, 3)
        self.check(cnn.Training(images), images.at(0, 0), lambda results: results[0])

    def test_lstm(self):
        waves = lstm.Waves(arrays.arrays_of(Backend("pure")), 5, 3, 2, 1, 3)
        self.check(lstm.Training(waves), (waves.at(0, 0),), lambda loss: loss)


class Pictures(unittest.TestCase):
    def test_it_learns_without_a_queue(self):
        line = [sys.executable, str(HERE / "mnist.py"), "--id", "7", "--epochs", "4", "--batch-size", "16", "--lr", "0.01", "--gamma", "0.9"]
        environment = {**os.environ, "ROTA_EXAMPLE_BACKEND": "pure"}
        process = subprocess.Popen(line, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        code, output = finish(process)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
        self.assertEqual((code, len(losses)), (0, 4), output)
        self.assertLess(losses[-1], losses[0])


class Comparison(unittest.TestCase):
    def test_policies_with_parameters(self):
        policies = ["fcfs:backfill=easy,depth=500", "sjf", "rr:quantum=2"]
        self.assertEqual(compare.split_policies("fcfs:backfill=easy,depth=500, sjf,rr:quantum=2"), policies)
        slugs = [slug for _, slug in compare.named(["rr:quantum=2", "rr:quantum:2"])]
        self.assertEqual(slugs, ["rr-quantum-2", "rr-quantum-2-1"])

    def test_times(self):
        self.assertEqual(compare.seconds("1970-01-01T00:00:01.250000000Z"), 1.25)
        self.assertEqual(compare.seconds("1970-01-01T01:00:00+01:00"), 0)
        self.assertRaises(compare.Failure, compare.seconds, None)

    def test_figures(self):
        moments = ((0, 1, 4), (1, 4, 9))
        texts = [[f"1970-01-01T00:00:{moment:02}Z" for moment in moments_of_one] for moments_of_one in moments]
        jobs = [dict(zip(("submitted_at", "started_at", "finished_at"), text), attempts=1, energy_wh=0.5) for text in texts]
        ran = {id(job): last - first for job, (_, first, last) in zip(jobs, moments)}
        found = compare.figures(jobs, lambda job: ran[id(job)])
        self.assertEqual(found, {"makespan_s": 9, "wait_mean_s": 2, "turnaround_mean_s": 6, "energy_wh": 1.0, "restarts": 0})
        jobs[0]["energy_wh"] = None
        self.assertIsNone(compare.figures(jobs, lambda job: 0)["energy_wh"])


if __name__ == "__main__":
    unittest.main()
