#!/usr/bin/env python3
"""Installs each thing that `make dist` makes into an empty place and runs a job with it.

`dist.py PROGRAM` makes the packages of a program that is built already; what is tested is the packaging.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "target/debug/rota").resolve()


class Packages(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = Path(cls.folder.name, "out")
        made_here = not (ROOT / "web/dist/index.html").is_file()
        if made_here:
            # The packaging is tested also where the page was not built.
            (ROOT / "web/dist").mkdir(parents=True, exist_ok=True)
            (ROOT / "web/dist/index.html").write_text("<!doctype html>\n<title>Rota</title>\n")
        try:
            script = ROOT / "packaging/dist.py"
            subprocess.run([sys.executable, script, "--binary", PROGRAM, "--out", cls.out], check=True, stdout=subprocess.DEVNULL)
        finally:
            if made_here:
                (ROOT / "web/dist/index.html").unlink()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def one(self, pattern: str) -> Path:
        found = list(self.out.glob(pattern))
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def run_a_job(self, rota: Path) -> None:
        """The program runs a job with nothing of this environment."""
        state = Path(tempfile.mkdtemp(dir=self.folder.name))
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(state), "ROTA_STATE": str(state / "state")}

        def call(*words: str) -> str:
            done = subprocess.run([rota, *words], env=environment, cwd=state, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
            return done.stdout

        call("up", "--detach", "--virtual-gpus", "a100:1", "--port", "0")
        try:
            number = call("submit", "sh", "-c", "echo it runs on $ROTA_GPUS GPU").strip()
            call("wait", "--timeout", "60", number)
            self.assertEqual(call("logs", number), "it runs on 1 GPU\n")
        finally:
            call("down")

    def test_the_archive_runs_a_job(self) -> None:
        with tarfile.open(self.one("rota-*-linux-*.tar.gz")) as archive:
            archive.extractall(Path(self.folder.name, "archive"), filter="data")
        rota = next(Path(self.folder.name, "archive").glob("*/usr/bin/rota"))
        self.run_a_job(rota)

    def test_the_debian_package_has_everything_in_its_place_and_runs_a_job(self) -> None:
        package = self.one("rota_*.deb")
        fields = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
        self.assertIn("Package: rota\n", fields)
        self.assertRegex(fields, r"Depends: libc6 \(>= 2\.\d+\)")
        root = Path(self.folder.name, "deb")
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
        unit = (root / "usr/lib/systemd/system/rota.service").read_text()
        self.assertIn("ExecStart=/usr/bin/rota up", unit)
        for place in (
            "usr/lib/systemd/user/rota.service",
            "usr/share/man/man1/rota-submit.1.gz",
            "usr/share/bash-completion/completions/rota",
            "usr/share/zsh/vendor-completions/_rota",
            "usr/share/fish/vendor_completions.d/rota.fish",
            "usr/share/doc/rota/DEPENDENCIES.txt",
        ):
            self.assertTrue((root / place).is_file(), place)
        self.run_a_job(root / "usr/bin/rota")

    def test_the_wheel_installs_into_an_empty_environment_and_runs_a_job(self) -> None:
        place = Path(self.folder.name, "venv")
        venv.create(place, with_pip=True)
        pip = [place / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", self.one("rota-*.whl")]
        subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        self.run_a_job(place / "bin/rota")
        imported = subprocess.run([place / "bin/python", "-c", "import rota; print(rota.Client)"], capture_output=True, text=True)
        self.assertEqual(imported.returncode, 0, imported.stderr)

    def test_the_sources_need_no_node(self) -> None:
        with tarfile.open(self.one("rota-*-source.tar.gz")) as archive:
            archive.extractall(Path(self.folder.name, "source"), filter="data")
        root = next(Path(self.folder.name, "source").iterdir())
        self.assertTrue((root / "web/dist/index.html").is_file())
        planned = subprocess.run(["make", "--dry-run", "build"], cwd=root, check=True, capture_output=True, text=True).stdout
        self.assertIn("cargo build", planned)
        self.assertNotIn("npm", planned)

    def test_every_file_has_its_checksum_and_every_dependency_a_licence(self) -> None:
        for line in (self.out / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split("  ")
            self.assertEqual(hashlib.sha256((self.out / name).read_bytes()).hexdigest(), digest, name)
        rows = (self.out / "DEPENDENCIES.txt").read_text().split("\n\n", 1)[1].splitlines()
        self.assertGreater(len(rows), 100)
        self.assertEqual([row for row in rows if row.split("  ")[1] == "?"], [])
        self.assertTrue(any(row.startswith("serde ") for row in rows))
        self.assertFalse(any(row.startswith("proptest ") for row in rows), "tests are not shipped")


if __name__ == "__main__":
    unittest.main()
