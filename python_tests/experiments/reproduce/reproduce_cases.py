"""A stand-in for `ptd-ext train`, controlled by its environment, and a table run with it."""

import json
import signal
import sys

import pytest

from ptd_ext.cli import reproduce as command
from ptd_ext.experiments.reproduce import pool
from ptd_ext.experiments.reproduce.grid import Cell

# A run appends what happens to a journal. FAKE has, by "method/seed", what it does before its end.
FAKE = r"""
import json, os, signal, sys, time
arguments = sys.argv[1:]
out = arguments[arguments.index("--out") + 1]
config = {}
for line in open(arguments[arguments.index("--config") + 1], encoding="utf-8"):
    name, equals, value = line.partition(" = ")
    if equals:
        config[name] = json.loads(value)
me = f"{config['method']}/{config['seed']}"
checkpoint = os.path.join(out, "checkpoint")

def note(event):
    journal = os.open(os.environ["FAKE_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{event} {me}\n".encode())
    os.close(journal)

def wait_for(event):
    deadline = time.monotonic() + 20
    while event not in open(os.environ["FAKE_JOURNAL"]).read().splitlines():
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain for {event}")
        time.sleep(0.01)

def terminated(number, frame):
    note("terminated")
    open(checkpoint, "w").close()
    sys.exit(128 + number)

def stubborn(number, frame):
    note("ignored")
    if "impatient" in do:
        os.kill(os.getppid(), signal.SIGINT)

do = json.loads(os.environ["FAKE"]).get(me, "").split(", ")
signal.signal(signal.SIGTERM, stubborn if "stubborn" in do else terminated)
note("resumed" if os.path.exists(checkpoint) else "started")
for step in do:
    if step.startswith("wait for "):
        wait_for(step.removeprefix("wait for "))
if "linger" in do:
    time.sleep(0.2)
if "fail" in do:
    print("\n".join(f"line {n}" for n in range(20)))
    sys.exit("ValueError: this cannot be.")
if "die" in do and not os.path.exists(checkpoint):
    open(checkpoint, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
if "interrupt" in do or "terminate" in do:
    os.kill(os.getppid(), signal.SIGINT if "interrupt" in do else signal.SIGTERM)
    while True:
        time.sleep(0.05)
held = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
result = {
    "test_accuracy": 70.0 + config["seed"],
    "test_accuracy_last": 69.0,
    "seconds": 30.0,
    "preset": config["preset"],
    "version": "1.2.3",
    "torch": "9.9",
    "network": "lenet5",
    "approximation_error": 0.5,
    "arguments": arguments,
    "threads": os.environ["OMP_NUM_THREADS"],
    "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "holds_lock": os.path.realpath(os.path.join(out, "lock")) in held,
    "session": os.getsid(0) == os.getpid(),
}
if "no result" not in do:
    with open(os.path.join(out, "result.json"), "w") as file:
        json.dump(result, file)
note("ended")
"""


class Table:
    """A table's folder, and `ptd-ext reproduce` with the stand-in."""

    def __init__(self, tmp_path, monkeypatch, capfd):
        self.out, self.journal = tmp_path / "table", tmp_path / "journal"
        self._monkeypatch, self._capfd = monkeypatch, capfd

    def run(self, *argv, data="fashion_mnist", jobs=1, out=None, **fake):
        """The exit code, the output, and what happened in the runs."""
        self.journal.write_text("")
        names = {name.replace("__", "-").replace("_", "/"): do for name, do in fake.items()}
        self._monkeypatch.setenv("FAKE", json.dumps(names))
        common = ["--out", str(out or self.out), "--jobs", str(jobs)]
        with pytest.raises(SystemExit) as stop:
            command.main([data, *argv, *common])
        output = self._capfd.readouterr()
        return stop.value.code, output.out + output.err, self.journal.read_text().splitlines()

    def result(self, *cell):
        path = Cell(*cell).folder(self.out) / "result.json"
        return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def table(tmp_path, monkeypatch, capfd):
    script = tmp_path / "fake_train.py"
    script.write_text(FAKE, encoding="utf-8")
    monkeypatch.setattr(pool, "TRAIN", [sys.executable, str(script)])
    made = Table(tmp_path, monkeypatch, capfd)
    monkeypatch.setenv("FAKE_JOURNAL", str(made.journal))
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield made
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


TWO = ("--rates", "50", "--methods", "CE", "--seeds", "2")
