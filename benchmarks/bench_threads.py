"""Time small jobs alone and beside two busy processes, with the default number of threads.

The jobs are a factorisation of 1,347 × 64 numbers and `ptd-ext train` with its defaults. Times are
in units of the job alone with one thread. torch may use as many threads as there are cores.

    python benchmarks/bench_threads.py [--out FILE]
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import machine, parser_for, write_csv

FACTORISE = """
import sys, time, torch, ptd_ext
x = torch.rand(1347, 64, generator=torch.Generator().manual_seed(0))
ptd_ext.SimplexNMF(10, max_iter=5, random_state=0).fit(x)
begin = time.perf_counter()
for _ in range(20):
    ptd_ext.SimplexNMF(10, max_iter=100, tol=0, random_state=0).fit(x)
print(time.perf_counter() - begin)
"""
TRAIN = """
import sys, time
from ptd_ext.cli import main
begin = time.perf_counter()
main(["train", "--device", "cpu", "--no-progress", "--out", sys.argv[1]])
print(time.perf_counter() - begin)
"""
JOBS = {"SimplexNMF, 1347 x 64": FACTORISE, "ptd-ext train": TRAIN}
HOG = "while True: pass"


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run a number of processes that only compute."""
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(processes)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def seconds(job: str, threads: int) -> float:
    """Seconds as measured by the job, without the start of Python."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", JOBS[job], str(Path(folder) / "run")],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = parser_for(__doc__, "threads_cpu.csv")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    cores, rows = os.cpu_count() or 1, []
    for job in JOBS:
        unit = 0.0
        for offered, others in ((1, 0), (cores, 0), (1, 2), (cores, 2)):
            with busy(others):
                times = [seconds(job, offered) for _ in range(arguments.repeats)]
            time_of = statistics.median(times)
            unit = unit or time_of
            print(f"{job:<24}{offered} threads offered, {others} busy processes: {time_of:7.3f} s"
                  f"{time_of / unit:7.2f}", flush=True)  # fmt: skip
            rows.append(
                {
                    "job": job,
                    "threads_offered": offered,
                    "busy_processes": others,
                    "seconds": round(time_of, 4),
                    "ratio": round(time_of / unit, 3),
                }
            )
    write_csv(arguments.out, [row | machine() for row in rows])


if __name__ == "__main__":
    main()
