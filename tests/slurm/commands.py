"""Slurm's commands with a note of every call, for tests that ask what was called."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

COMMANDS = ["sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "srun", "salloc"]
# What these commands can change.
WRITES = {"sbatch", "scancel", "srun", "salloc"}


class Recorded:
    """A folder with stand-ins of Slurm's commands: each writes down its call and then is the command itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "commands"
        self.folder.mkdir()
        self.log = self.folder / "calls"
        self.log.touch()
        self.log.chmod(0o666)
        for name in COMMANDS:
            self.replace(name, f'exec {shutil.which(name)} "$@"')

    def replace(self, name: str, script: str) -> None:
        """Puts another script behind the name of a command."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "$(date +%s.%N) {name} $*" >> {self.log}\n{script}\n')
        path.chmod(0o755)

    def remove(self, name: str) -> None:
        """Takes a command away."""
        (self.folder / name).unlink()

    def calls(self, name: str | None = None) -> list[tuple[float, str, str]]:
        """The calls so far: when, which command, with which arguments."""
        found = []
        for line in self.log.read_text().splitlines():
            moment, command, *arguments = line.split(" ", 2)
            if name in (None, command):
                found.append((float(moment), command, arguments[0] if arguments else ""))
        return found

    def writes(self) -> list[str]:
        """The calls that can change something."""
        changing = {"update", "create", "delete", "hold", "release", "requeue", "suspend", "resume", "reconfigure"}
        return [
            f"{command} {arguments}"
            for _, command, arguments in self.calls()
            if command in WRITES or (command == "scontrol" and changing & set(arguments.split()))
        ]

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """An environment in which these commands come first."""
        return {**base, "PATH": f"{self.folder}:{base.get('PATH', os.defpath)}"}
