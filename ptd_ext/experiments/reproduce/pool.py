"""Runs cells as processes of `ptd-ext train`, several at a time, until done or told to stop."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptd_ext.train.config.toml import write_config
from ptd_ext.train.reproduce.grid import Cell
from ptd_ext.train.reproduce.results import Result, read_result
from ptd_ext.train.reproduce.scheduler import Queue

__all__ = ["TRAIN", "Outcome", "Workers"]

TRAIN = [sys.executable, "-m", "ptd_ext", "train"]

_POLL = 0.05  # seconds between looks at the processes
_STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM}
_LAST_LINES = 10  # of a failed cell's log


@dataclass
class Outcome:
    """How a table's cells ended.

    Attributes:
        failed: cells that failed, and why.
        skipped: cells that another process was running, or that something else stopped.
        signal: the signal that stopped the table; 0 if it came to its end.
    """

    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)
    signal: int = 0


@dataclass
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    slot: int
    lock: int
    log: Path
    log_start: int
    started: float


class Workers:
    """Takes cells from a queue and runs them.

    Args:
        table: the folder of the table.
        configs: of every cell.
        jobs: processes at a time.
        threads: of each.
        gpus: names of GPUs to share out among the processes, as CUDA_VISIBLE_DEVICES has them.
        grace: seconds that processes get to write a checkpoint when told to stop.
        tell: is called with every cell that succeeded, its result, the seconds since its process
            started, and the same of the cells that run.
    """

    def __init__(
        self,
        table: Path,
        configs: dict[Cell, dict[str, Any]],
        *,
        jobs: int,
        threads: int = 1,
        gpus: Sequence[str] = (),
        grace: float = 60.0,
        tell: Callable[[Cell, Result, float, dict[Cell, float]], None],
    ) -> None:
        self.table, self.configs, self.jobs, self.threads = table, configs, jobs, threads
        self.gpus, self.grace, self.tell = gpus, grace, tell
        self._running: list[_Running] = []
        self._outcome = Outcome()
        self._signals = 0

    def run(self, queue: Queue) -> Outcome:
        """Run all that the queue holds. A cell that fails does not keep the others from running."""
        with self._told_to_stop():
            try:
                while not self._signals and (queue.waiting or self._running):
                    while len(self._running) < self.jobs and (cell := queue.take()):
                        self._start(cell, queue)
                    self._collect(queue)
                    if self._running:
                        time.sleep(_POLL)
            finally:
                # No process outlives the table, not even after an error here.
                self._stop(queue)
        return self._outcome

    def _start(self, cell: Cell, queue: Queue) -> None:
        folder = cell.folder(self.table)
        folder.mkdir(parents=True, exist_ok=True)
        # The process inherits the lock and holds it as long as it lives, even if this one is
        # killed: a second table in the same folder sees that the cell is taken.
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            self._outcome.skipped[cell] = "another process is running it"
            print(f"{cell}: another process is running it; left alone", flush=True)
            queue.finish(cell, succeeded=False)
            return
        write_config(self.configs[cell], folder / "cell.toml")
        slot = min(set(range(self.jobs)) - {running.slot for running in self._running})
        log = folder / "log.txt"
        with log.open("ab") as output:
            log_start = output.tell()
            process = subprocess.Popen(
                [*TRAIN, *self._arguments(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(slot),
                pass_fds=(lock,),
                # Its own session: Ctrl-C reaches this process only, which then stops all in order.
                start_new_session=True,
            )
        now = time.monotonic()
        self._running.append(_Running(cell, process, slot, lock, log, log_start, now))

    def _arguments(self, folder: Path) -> list[str]:
        config = str(folder / "cell.toml")
        return [
            "--config",
            config,
            "--out",
            str(folder),
            "--resume",
            "--no-progress",
            "--no-report",
        ]

    def _environment(self, slot: int) -> dict[str, str]:
        changes = {"OMP_NUM_THREADS": str(self.threads)}
        if self.gpus:
            changes["CUDA_VISIBLE_DEVICES"] = self.gpus[slot % len(self.gpus)]
        return {**os.environ, **changes}

    def _collect(self, queue: Queue) -> None:
        """Note the ends of processes that have ended."""
        for running in [r for r in self._running if r.process.poll() is not None]:
            self._running.remove(running)
            os.close(running.lock)
            cell, code = running.cell, running.process.returncode
            folder = cell.folder(self.table)
            try:
                result = read_result(folder) if code == 0 else None
                problem = f"it ended with exit code {code}"
            except (OSError, ValueError) as error:
                result, problem = None, str(error)
            queue.finish(cell, succeeded=result is not None)
            if result is not None:
                now = time.monotonic()
                others = {other.cell: now - other.started for other in self._running}
                self.tell(cell, result, now - running.started, others)
            elif code in _STOPPED:
                self._outcome.skipped[cell] = "it was stopped"
                if not self._signals:
                    print(f"{cell}: stopped by a signal; it can be resumed", flush=True)
            else:
                self._outcome.failed[cell] = problem
                print(f"{cell}: failed, {problem}. The end of {running.log}:", flush=True)
                print(_last_lines(running.log, running.log_start), flush=True)

    def _stop(self, queue: Queue) -> None:
        """Ask the processes to end, wait, and end those that do not."""
        if not self._running:
            return
        print("StopSignals; what runs writes its checkpoint first …", flush=True)
        self._send(signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        # A second signal ends all processes at once.
        while self._running and time.monotonic() < deadline and self._signals < 2:
            time.sleep(_POLL)
            self._collect(queue)
        self._send(signal.SIGKILL)
        for running in self._running:
            running.process.wait()
            os.close(running.lock)
            self._outcome.skipped[running.cell] = "it had to be killed"
            print(f"{running.cell}: had to be killed", flush=True)
        self._running.clear()

    def _send(self, number: int) -> None:
        for running in self._running:
            # SIGTERM goes to the run, which knows what to do with its own helpers; SIGKILL to them
            # as well.
            with contextlib.suppress(ProcessLookupError):
                if number == signal.SIGKILL:
                    os.killpg(running.process.pid, number)
                else:
                    running.process.send_signal(number)

    @contextlib.contextmanager
    def _told_to_stop(self) -> Iterator[None]:
        def note(number: int, frame: object) -> None:
            self._signals += 1
            self._outcome.signal = self._outcome.signal or number

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _last_lines(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:]) or "    (nothing was written)"
