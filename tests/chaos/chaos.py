"""The chaos suite: users, accidents and malice against the real binary, drawn from a seed, with an oracle after every round.

    python3 tests/chaos/chaos.py target/debug/rota --rounds 20 --seed 1

A campaign is one daemon with one policy for a few rounds. A finding prints the seed and the campaign; the same campaign is drawn again
with `--seed S --campaign C`. As root, three users act; otherwise there is one, and what needs root is left out.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from deeds import Deeds  # noqa: E402 -- found beside this file
from oracle import Oracle  # noqa: E402
from world import HERE, Finding, World  # noqa: E402

ROUNDS_A_CAMPAIGN = 10
# Turns that are short enough to come up in a campaign.
SHORT_TURNS = {"tick": "0.5", "quantum": "0.3", "first": "0.2"}


def model(binary, folder):
    """A small model for the policy `learned`. How well it decides is another matter."""
    file = folder / "model.safetensors"
    command = [binary, "learn", "train", "--env", "classroom", "--cluster", "gpu:4", "--algo", "es", "--steps", "2000", "--seed", "1", "-o", str(file)]
    subprocess.run(command, capture_output=True, check=True)
    return file


def policies(binary, learned):
    """Every policy, with short turns; `learned` is the model of those that need one."""
    listed = json.loads(subprocess.run([binary, "policies", "--json"], capture_output=True, check=True).stdout)
    specs = []
    for policy in listed:
        names = [parameter["name"] for parameter in policy["parameters"]]
        if "model" in names:
            specs.append(f"{policy['name']}:model={learned}")
            continue
        turns = ",".join(f"{name}={value}" for name, value in SHORT_TURNS.items() if name in names)
        specs.append(f"{policy['name']}:{turns}" if turns else policy["name"])
    return [*specs, "fcfs:backfill=easy", "fcfs:backfill=conservative", "priority:preempt=true"]


def clock(folder):
    """The library that sets the clock of one process; None where there is no compiler."""
    library = folder / "clock.so"
    compiler = shutil.which("cc")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "clock.c"), "-ldl"]
    if compiler is None or subprocess.run(command, check=False).returncode != 0:
        print("no C compiler: the clock is left alone", file=sys.stderr)
        return None
    return library


def campaign(options, number, spec, library, rounds, deadline, sums):
    """One daemon, some rounds. Gives the number of rounds."""
    dice = random.Random(f"{options.seed}/{number}")
    mechanism = dice.choice(("event", "rounds"))
    sums["mechanisms"].add(mechanism)
    world = World(options.binary, spec, mechanism, library)
    try:
        world.begin()
        oracle = Oracle(world)
        deeds = Deeds(world, oracle, dice)
        played = 0
        while played < rounds and (played == 0 or time.monotonic() < deadline):
            deeds.round()
            oracle.send_unanswered()
            oracle.look()
            played += 1
        oracle.settle()
        oracle.look_at_the_end()
        world.stop()
        sums["jobs"] += len(oracle.jobs)
        sums["refusals"] += oracle.refusals
        sums["starts"] += world.lives
        sums["submit_seconds"] += oracle.submit_seconds
        for name, count in deeds.done.items():
            sums["deeds"][name] = sums["deeds"].get(name, 0) + count
        return played
    except BaseException:
        print(f"the daemon said: {world.said()}", file=sys.stderr)
        raise
    finally:
        world.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program `rota`")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--campaign", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="begin with this campaign, to go on where an earlier run of the seed ended")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new round after this time")
    options = parser.parse_args()
    # Nothing stays behind when it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.binary = os.path.abspath(options.binary)
    sums = {"jobs": 0, "refusals": 0, "starts": 0, "submit_seconds": [], "deeds": {}, "policies": set(), "mechanisms": set()}
    since, played = time.monotonic(), 0
    deadline = since + options.seconds
    with tempfile.TemporaryDirectory(prefix="rota-clock-") as folder:
        Path(folder).chmod(0o755)
        library = clock(Path(folder))
        specs = policies(options.binary, model(options.binary, Path(folder)))
        random.Random(options.seed).shuffle(specs)
        number = options.first if options.campaign is None else options.campaign
        while played < options.rounds and (played == 0 or time.monotonic() < deadline):
            spec = specs[number % len(specs)]
            try:
                rounds = min(ROUNDS_A_CAMPAIGN, options.rounds - played)
                played += campaign(options, number, spec, library, rounds, deadline, sums)
            except Exception as problem:
                if not isinstance(problem, Finding):
                    traceback.print_exc()
                print(f"FINDING under {spec}: {problem}", file=sys.stderr)
                print(f"again with: python3 tests/chaos/chaos.py {options.binary} --seed {options.seed} --campaign {number}", file=sys.stderr)
                return 1
            sums["policies"].add(spec)
            print(f"campaign {number}: {spec}: {played} rounds, {sums['jobs']} jobs", file=sys.stderr, flush=True)
            if options.campaign is not None:
                break
            number += 1
    waits = sorted(sums["submit_seconds"]) or [0]
    users = 3 if os.geteuid() == 0 else 1
    print(
        f"chaos: {played} rounds in {time.monotonic() - since:.0f} s without a finding (seed {options.seed}): {users} users, {sums['jobs']} jobs, "
        f"{sums['starts']} starts of the daemon, {sums['refusals']} acts on others refused, {len(sums['policies'])} of {len(specs)} policies under {' and '.join(sorted(sums['mechanisms']))}, "
        f"submit p99 {waits[int(len(waits) * 0.99) - 1] * 1000:.0f} ms"
    )
    print("deeds: " + ", ".join(f"{name} {count}" for name, count in sorted(sums["deeds"].items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
