"""Alternating timers, peak memory, and CSV tables with a description of the machine."""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

# Set before torch is imported; otherwise its profiler prints every start and stop.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch

import ptd_ext
from ptd_ext import _C
from ptd_ext.utils import csv_files

RESULTS = Path(__file__).parent / "results"
FEWEST_TURNS = 4  # minimum for steps so slow that no more fit into the time


def interleaved(steps: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Microseconds per call of each step; steps alternate, so that slow moments affect all of them.

    The first call of a turn is not timed, since other steps have emptied the caches. Steps of more
    than a few milliseconds are not affected.
    """
    batch, short = {}, {}
    for name, step in steps.items():
        step()  # compiles, if the step uses torch.compile
        start = time.perf_counter()
        step()
        once = time.perf_counter() - start
        # At least a millisecond per turn, so that alternating costs nothing.
        batch[name] = max(1, round(1e-3 / once))
        short[name] = once < 1e-2
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < FEWEST_TURNS:
        for name, step in steps.items():
            if short[name]:
                step()
            for _ in range(batch[name]):
                start = time.perf_counter()
                step()
                times[name].append(1e6 * (time.perf_counter() - start))
    return times


def in_turns(
    steps: dict[str, Callable[[], object]], repeats: int, warm: bool = False
) -> dict[str, float]:
    """Median seconds of each step, after one call that is not timed unless all are warm."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(warm, repeats + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            if turn:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


def quantiles(times: list[float]) -> tuple[float, float, float]:
    """Median, 20th and 80th percentile."""
    fifths = statistics.quantiles(times, n=5)
    return statistics.median(times), fifths[0], fifths[3]


def peak_memory(step: Callable[[], object]) -> int:
    """The peak number of bytes that a call of `step` holds, by torch's CPU allocator."""
    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    for _ in range(5):  # a profile is sometimes empty
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            step()
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        held = peak = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            held += event.nbytes()
            peak = max(peak, held)
        if peak > 0:
            return peak
    raise RuntimeError("the profiler saw no allocation in five tries")


def peak_resident() -> int:
    """Peak bytes of this process alone; getrusage would include its parent."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def machine() -> dict[str, object]:
    """Describe the machine."""
    return {
        "cpu": _cpu_name(),
        "cpu_isa": _C.cpu_isa(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "ptd_ext": ptd_ext.__version__,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def parser_for(doc: str, table: str) -> argparse.ArgumentParser:
    """A command line with --out, by default a file in results/."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / table, help="CSV file to write")
    return parser


def write_csv(
    path: Path, rows: list[dict[str, object]], keep: Callable[[dict[str, str]], bool] | None = None
) -> None:
    """Write a table atomically. Rows of the file that `keep` accepts come first."""
    if keep is not None and path.exists():
        with path.open(newline="") as file:
            rows = [*filter(keep, csv.DictReader(file)), *rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = list(dict.fromkeys(key for row in rows for key in row))
    csv_files.write_csv(path, fields, ([row.get(key) for key in fields] for row in rows))
    print(f"Written to {path}")
