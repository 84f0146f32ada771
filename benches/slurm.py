"""`rota import sacct`: a made-up year of 100,000 jobs in 5 s, its replay included.

python3 benches/slurm.py target/release/rota
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/slurm"))
from test_reading import made_up_year

JOBS = 100_000
SECONDS_MAX = 5.0


def main() -> None:
    rota = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "sacct.txt"
        log.write_text(made_up_year(JOBS))
        began = time.monotonic()
        done = subprocess.run(
            [rota, "import", "sacct", str(log), "-o", str(Path(name) / "year.csv")], check=True, capture_output=True, text=True
        )
        seconds = time.monotonic() - began
    print(done.stderr.splitlines()[0])
    verdict = "holds" if seconds <= SECONDS_MAX else "MISSED"
    print(f"import of {JOBS} jobs: {seconds:.2f} s (target {SECONDS_MAX} s: {verdict})")


if __name__ == "__main__":
    main()
