"""SIGKILL at random moments of `ptd-ext train`, `compare`, `reproduce` and `labels`, then again.

    python kill_runs.py 100                  a hundred kills of each command
    python kill_runs.py 10 train --seed 3
    python kill_runs.py 0 --races 20         three commands started in one folder at once

Prints what was killed how often and exits with 1 if a command that was started again ended with
other bits than one that nobody killed, or if a file was torn. Processes are forked from one that
has imported everything, so that a start takes milliseconds and kills fall on the run and not on
its imports.
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from ptd_ext.cli import main as ptd_ext_main
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.reproduce import pool
from ptd_ext.experiments.settings import ExperimentSettings

# Modules that a run imports late; an optimiser's first step imports torch._dynamo.
ON_THE_WAY = (
    "jinja2",
    "matplotlib.backends.backend_agg",
    "pandas",
    "ptd_ext.cli.labels",
    "ptd_ext.cli.compare",
    "ptd_ext.cli.train",
    "ptd_ext.cli.reproduce",
    "scipy.stats",
    "torch._dynamo",
)
# Files whose bytes must be the same.
WHOLE = (
    *("labels.csv", "cleaned.csv", "report.html"),
    *("labels.safetensors", "model.safetensors"),
)
IN_MEMORY = Path("/dev/shm")  # where waiting for the disk takes no time; a kill is the same
TINY = {
    "data_limit": 200,
    "epochs": 2,
    "warm_up_epochs": 2,
    "revision_epochs": 1,
    "n_parts": 3,
    "batch_size": 32,
    "checkpoint_steps": 2,
}
FLAGS = [text for name, value in TINY.items() for text in (f"--{name.replace('_', '-')}", value)]
SETTINGS = [*FLAGS, "--dataset", "digits", "--device", "cpu", "--threads", 1, "--no-progress"]
COMMANDS = {
    "train": ["train", *SETTINGS, "--method", "PTD-R-V", "--against", "CE"],
    "compare": ["compare", *SETTINGS, "--methods", "CE", "PTD-F", "--seeds", 1],
    "reproduce": [
        *("reproduce", "digits", "--rates", 40, "--methods", "CE", "PTD-F", "PTD-R"),
        *("--seeds", 1, "--jobs", 2, *FLAGS, "--device", "cpu"),
    ],
    "labels": [
        *("labels", "rows.csv", "--label", "kind", "--relabel", "--no-progress"),
        *("--network", "linear", "--method", "EM-F"),
    ],
}
FINISHED = {"labels": "labels.csv"}  # written last; result.json by other commands
RACING = {
    "train": ("in use", "holds a run already"),
    "labels": ("in use", "holds results already"),
}


def fork(arguments, output, environment=None, keep=(), session=False):
    """The process that runs a command, with its output in a file."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        if session:
            os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Locks of other cells must not live on here.
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in keep:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
        os.environ.update(environment or {})
        ptd_ext_main([str(argument) for argument in arguments])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


class ForkedProcess:
    """Takes the place of `subprocess.Popen`, for the processes of a table's cells."""

    def __init__(self, arguments, *, stdout, env, pass_fds, **_):
        after = arguments[arguments.index("ptd_ext") + 1 :]
        self.pid = fork(after, stdout.fileno(), env, pass_fds, session=True)
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self):
        while self.poll() is None:
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)


def write_rows(path):
    """A table of two clouds of points, with some wrong labels."""
    chance = random.Random(0)
    lines = ["width,height,kind"]
    for row in range(200):
        side = chance.gauss(6 * (row % 2), 1), chance.gauss(0, 1)
        lines.append(f"{side[0]:.4f},{side[1]:.4f},{'ab'[(row + (row % 10 == 0)) % 2]}")
    path.write_text("\n".join(lines) + "\n")


def contents(folder):
    """The contents that must not depend on kills, by file; raises for a torn file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name.endswith(".part"):
            raise AssertionError(f"{path} was left behind")
        if path.name in WHOLE:
            found[name] = path.read_bytes()
        elif path.name in ("result.json", "metrics.jsonl"):
            text = path.read_text(encoding="utf-8")
            records = [text] if path.name == "result.json" else text.splitlines()
            values = [json.loads(record) for record in records]
            for value in values:
                value.pop("seconds")
                value.pop("sha256", None)  # settings.toml names the folder
            found[name] = values
        elif path.name in ("settings.toml", "given.toml", "cell.toml", "table.csv"):
            # The folder's own name, and seconds, may be in them.
            found[name] = len(path.read_text(encoding="utf-8").splitlines())
    return found


class Trials:
    """Runs of one command, killed and gone on with."""

    def __init__(self, command, root, seed):
        self.command, self.root, self.random = command, root, random.Random(seed)
        self.kills = 0
        write_rows(root / "rows.csv")
        start = time.monotonic()
        code = self._wait(self._start(root / "whole"))
        assert code == 0, (root / "output").read_text()
        self.seconds = time.monotonic() - start
        self.whole = contents(root / "whole")
        last = FINISHED.get(command, "result.json")
        assert any(name.endswith(last) for name in self.whole)

    def run(self, kills):
        """Kill so many times; returns how many runs that took."""
        runs = 0
        while self.kills < kills:
            runs += 1
            out = self.root / f"broken-{runs}"
            self._until_done(out)
            found = contents(out)
            differing = [n for n in {*found, *self.whole} if found.get(n) != self.whole.get(n)]
            assert not differing, f"{out}: {', '.join(sorted(differing))} differ"
            shutil.rmtree(out)
        return runs

    def _until_done(self, out):
        deadline = time.monotonic() + 300
        left = self.random.choice([1, 2, 3, 4])
        while time.monotonic() < deadline:
            process = self._start(out)
            if left:
                left -= 1
                code = self._kill(process, self.random.uniform(0, self.seconds))
            else:
                code = self._wait(process)
            # A process of a cell may outlive its table, and then holds the cell until its end.
            if code == 0:
                return
        raise AssertionError(f"{out} did not come to its end: {(self.root / 'output').read_text()}")

    def _start(self, out):
        arguments = self._arguments(out)
        if self.command == "train" and (out / "given.toml").exists():
            arguments = ["train", "--out", out, "--resume"]
        with (self.root / "output").open("wb") as output:
            return fork(arguments, output.fileno(), session=True)

    def _arguments(self, out):
        rows = self.root / "rows.csv"
        return [rows if word == "rows.csv" else word for word in COMMANDS[self.command]] + [
            *("--out", out)
        ]

    def _wait(self, process):
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def _kill(self, process, seconds):
        """Kill the command, for a table also its cells or one of them; returns its exit code."""
        time.sleep(seconds)
        cells = _children(process)
        victims = [process]
        if cells:
            victims = self.random.choice(
                [[process], [process, *cells], [self.random.choice(cells)]]
            )
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        code = self._wait(process)
        self.kills += code == -signal.SIGKILL or victims != [process]
        return code


class Races(Trials):
    """Three processes start a command in one folder: one trains, two report why not."""

    def run(self, races):
        for number in range(races):
            out = self.root / f"race-{number}"
            processes = []
            for runner in range(3):
                with (self.root / f"output-{runner}").open("wb") as output:
                    arguments = self._arguments(out)
                    processes.append(fork(arguments, output.fileno(), session=True))
                time.sleep(self.random.choice([0, 0.01, 0.1]))
            codes = [self._wait(process) for process in processes]
            printed = [(self.root / f"output-{runner}").read_text() for runner in range(3)]
            assert sorted(codes) == [0, 2, 2], "\n".join(printed)
            for text in (text for text, code in zip(printed, codes, strict=True) if code):
                assert any(words in text for words in RACING[self.command]), text
            assert contents(out) == self.whole, f"{out} differs"
            shutil.rmtree(out)
        return races


def _children(process):
    """The children of all threads of a process."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int, help="of each command")
    parser.add_argument("commands", nargs="*", default=list(COMMANDS), metavar="command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--races", type=int, default=0, help="of three runs in one folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for module in ON_THE_WAY:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    load_problem(ExperimentSettings(data_limit=100))  # imports what reads digits
    pool.subprocess = type("Forking", (), {**vars(subprocess), "Popen": ForkedProcess})
    for command in RACING if options.races else ():
        with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as root:
            Races(command, Path(root), options.seed).run(options.races)
        print(f"{options.races} races of {command}: one trained, two printed why not", flush=True)
    for command in options.commands if options.kills else ():
        with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as root:
            trials = Trials(command, Path(root), options.seed)
            start = time.monotonic()
            runs = trials.run(options.kills)
            took = time.monotonic() - start
        print(
            f"{command}: {trials.kills} kills in {runs} runs, all ended with the same bits "
            f"({trials.seconds:.1f} s a run, {took:.0f} s in all)",
            flush=True,
        )


if __name__ == "__main__":
    main()
