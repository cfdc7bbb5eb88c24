"""Runs cells as processes of `ptd-ext train`, several at a time.

The jobs are the threads of a `ThreadPoolExecutor`. Each starts a process of its own per cell, since
the workers of a process pool can neither be asked one by one for a checkpoint nor crash alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import cycle, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from ptd_ext.experiments.reproduce.grid import Cell, Group
from ptd_ext.experiments.reproduce.results import Result, finished_result, read_result
from ptd_ext.experiments.reproduce.schedule import start_order
from ptd_ext.experiments.reproduce.time_left import duration, time_left
from ptd_ext.experiments.toml import write_config

TRAIN = [sys.executable, "-m", "ptd_ext", "train"]

_POLL = 0.05  # seconds between checks for signals
_STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM}
_LAST_LINES = 10  # lines of a failed cell's log to print


class _Ended(NamedTuple):
    """The exit code of a process, the seconds since its start, and where its log starts."""

    code: int
    seconds: float = 0.0
    log_start: int = 0


class Pool:
    """A thread per job, each of which runs one process of `ptd-ext train` at a time.

    A process that crashes affects its own cell only. SIGINT and SIGTERM are passed on, so that
    every process writes its checkpoint; a second signal kills the processes.

    Args:
        table: the folder of the table.
        configs: the configuration of every cell.
        jobs: the number of processes that run at a time.
        threads: the number of CPU threads of each.
        gpus: the GPUs to distribute over the jobs, as CUDA_VISIBLE_DEVICES names them.
        grace: the seconds that processes have for a checkpoint before they are killed.

    Attributes:
        missing: the cells without a result after :meth:`run`, with the reason.
        signal: the signal that stopped the pool; 0 if it ran to the end.
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
    ) -> None:
        self.table, self.configs, self.threads, self.grace = table, configs, threads, grace
        self.missing: dict[Cell, str] = {}
        self.signal = self._signals = 0
        self._jobs, self._done = jobs, 0
        self._took: dict[Cell, float] = {}  # the seconds that finished cells took
        self._executor = ThreadPoolExecutor(jobs)
        self._gpus: SimpleQueue[str] = SimpleQueue()  # the GPUs of idle jobs
        for gpu in islice(cycle(gpus or [""]), jobs):
            self._gpus.put(gpu)
        self._futures: dict[Future[_Ended | None], Cell] = {}
        self._todo: list[Cell] = []
        self._held: list[Cell] = []  # cells that another process is running
        self._warm: set[Group | None] = {None}  # groups that need not wait for a warm-up
        self._lock = threading.Lock()  # guards the two fields below
        self._running: dict[Cell, tuple[subprocess.Popen[bytes], float]] = {}
        self._stopping = False

    def run(self, done: Mapping[Cell, Result]) -> None:
        """Run all cells but those that are done; a cell that fails does not stop the others.

        A cell that another process holds is tried again once the other cells have ended.

        Args:
            done: the results of the finished cells, whose warm-ups are in the cache.
        """
        self._done = len(done)
        self._took = {c: s for c, r in done.items() if (s := r.values.get("seconds")) is not None}
        self._warm |= {cell.group for cell in done}
        self._todo = start_order((c for c in self.configs if c not in done), self._warm)
        with self._noting_signals():
            try:
                self._run_all()
            finally:
                self._stop()
        for cell in self._held:
            self.missing[cell] = "another process is running it"
            print(f"{cell}: skipped, another process is running it", flush=True)

    def _run_all(self) -> None:
        ran = False
        while not self._signals:
            while len(self._futures) < self._jobs and (cell := self._next()):
                self._futures[self._executor.submit(self._train, cell)] = cell
            if self._futures:
                ended, _ = wait(self._futures, timeout=_POLL, return_when=FIRST_COMPLETED)
                for future in ended:
                    ran |= self._handle(self._futures.pop(future), future.result())
            elif self._todo or (self._held and ran):  # try again those that were held, and the rest
                self._todo, self._held, ran = [*self._held, *self._todo], [], False
                self._warm |= {cell.group for cell in self._todo}
            else:
                return

    def _next(self) -> Cell | None:
        """Take the next cell to start; a group waits for the cell that makes its warm-up."""
        cold = {cell.group for cell in (*self._futures.values(), *self._held)} - self._warm
        cell = next((cell for cell in self._todo if cell.group not in cold), None)
        if cell is not None:
            self._todo.remove(cell)
        return cell

    def _train(self, cell: Cell) -> _Ended | None:
        """Run one cell in the thread of a job; returns None if another process holds the cell."""
        folder, config = cell.folder(self.table), self.configs[cell]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a") as lock, (folder / "log.txt").open("ab") as log:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if finished_result(folder, config) is not None:
                return _Ended(0)  # another process has run it since the table was read
            write_config(config, folder / "cell.toml")
            where = ["--config", str(folder / "cell.toml"), "--out", str(folder)]
            gpu, log_start, start = self._gpus.get(), log.tell(), time.monotonic()
            environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
            try:
                with self._lock:
                    if self._stopping:
                        return _Ended(-signal.SIGTERM)
                    process = subprocess.Popen(
                        [*TRAIN, *where, "--resume", "--no-progress", "--no-report"],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
                        # The process inherits the lock and keeps it even if this one is killed.
                        pass_fds=(lock.fileno(),),
                        # Ctrl-C reaches this process only, which then stops the others.
                        start_new_session=True,
                    )
                    self._running[cell] = process, start
                code = process.wait()
            finally:
                with self._lock:
                    self._running.pop(cell, None)
                self._gpus.put(gpu)
        return _Ended(code, time.monotonic() - start, log_start)

    def _handle(self, cell: Cell, ended: _Ended | None) -> bool:
        """Handle the end of a cell; returns whether it was not held."""
        if ended is None:  # its group waits, because the other process makes the warm-up
            self._held.append(cell)
            return False
        problem = f"exit code {ended.code}"
        if ended.code == 0:
            try:
                result = read_result(cell.folder(self.table))
            except (OSError, ValueError) as error:
                problem = str(error)
            else:
                self._warm.add(cell.group)
                self._print_progress(cell, result, ended.seconds)
                return True
        if ended.code in _STOPPED:
            self.missing[cell] = "stopped by a signal"
            if not self._signals:
                print(f"{cell}: stopped by a signal; it can be resumed", flush=True)
        elif ended.code != -signal.SIGKILL or not self._stopping:
            self.missing[cell] = problem
            log = cell.folder(self.table) / "log.txt"
            print(f"{cell}: failed, {problem}. Last lines of {log}:", flush=True)
            print(_last_lines(log, ended.log_start), flush=True)
        return True

    def _print_progress(self, cell: Cell, result: Result, seconds: float) -> None:
        # A resumed run has taken longer than its last process, and a process longer than its run.
        took = self._took[cell] = max(result.values.get("seconds") or 0.0, seconds)
        self._done += 1
        now = time.monotonic()
        with self._lock:
            running = {other: now - start for other, (_, start) in self._running.items()}
        others = (*self._futures.values(), *self._held, *self._todo)
        waiting = [other for other in others if other not in running]
        line = f"{result.values['test_accuracy']:.2f} % in {duration(took)}"
        if remaining := len(waiting) + len(running):
            left = time_left(self._took, running, waiting, self._jobs)
            line += f"; {remaining} left, about {duration(left)}"
        print(f"[{self._done}/{len(self.configs)}] {cell}: {line}", flush=True)

    def _stop(self) -> None:
        """Stop all processes, also after an error here; kill those that do not end in time."""
        if self._send(signal.SIGTERM):
            print("Stopping; running cells are writing their checkpoints …", flush=True)
        self._executor.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + self.grace
        while self._running and time.monotonic() < deadline and self._signals < 2:
            time.sleep(_POLL)
        for cell in self._send(signal.SIGKILL):
            print(f"{cell}: killed, because it did not stop", flush=True)
        self._executor.shutdown(wait=True)
        for future, cell in self._futures.items():
            if not future.cancelled() and future.exception() is None:
                self._handle(cell, future.result())

    def _send(self, number: int) -> list[Cell]:
        """Start no more processes, and send a signal to those that run; returns their cells."""
        with self._lock:
            self._stopping = True
            running = {cell: process for cell, (process, _) in self._running.items()}
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                if number == signal.SIGKILL:  # its own child processes as well
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)
        return list(running)

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        def note(number: int, frame: object) -> None:
            self._signals += 1
            self.signal = self.signal or number

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
    return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:]) or "    (the log is empty)"
