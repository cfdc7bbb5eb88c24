"""Tables run with a stand-in for `ptd-ext train`, which does what its environment tells it."""

import json
import shutil
import signal
import sys

import pytest

from ptd_ext.train.reproduce import command, workers
from ptd_ext.train.reproduce.grid import Cell

# A run appends what happens to a journal. FAKE says, by "method/seed", what it does before its end.
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
    monkeypatch.setattr(workers, "TRAIN", [sys.executable, str(script)])
    made = Table(tmp_path, monkeypatch, capfd)
    monkeypatch.setenv("FAKE_JOURNAL", str(made.journal))
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield made
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


TWO = ("--rates", "50", "--methods", "CE", "--seeds", "2")


def test_a_table_is_run_and_written(table):
    code, output, journal = table.run(*TWO, "--threads-per-job", "3")
    assert code == 0
    assert journal == ["started CE/0", "ended CE/0", "started CE/1", "ended CE/1"]
    assert "2 cells, 0 of them done; 1 at a time" in output
    assert "[1/2] fashion_mnist 50 % CE seed 0: 70.00 % in 30 s; 1 left, about 30 s\n" in output
    assert "[2/2] fashion_mnist 50 % CE seed 1: 71.00 % in 30 s\n" in output
    assert "**70.50 ± 0.71** (51.42 ± 0.66)" in output
    assert "preset fast · network lenet5 · 60,000 training samples · ptd_ext 1.2.3" in output
    files = {path.name for path in table.out.iterdir() if path.is_file()}
    assert {"table.md", "table.csv"} <= files <= {"table.md", "table.csv", "table.png"}
    assert (table.out / "table.csv").read_text().count("\n") == 1 + 2 + 1


def test_a_run_gets_its_configuration_threads_and_lock(table):
    table.run(*TWO, "--threads-per-job", "3", "--set", "epochs=7")
    folder = Cell("fashion_mnist", 50, "CE", 1).folder(table.out)
    result = table.result("fashion_mnist", 50, "CE", 1)
    config = folder / "cell.toml"
    arguments = ["--config", str(config), "--out", str(folder), "--resume", "--no-progress"]
    arguments.append("--no-report")
    assert result["arguments"] == arguments
    assert result["threads"] == "3"
    assert result["holds_lock"]
    assert result["session"]  # Ctrl-C at the terminal is not for it
    lines = config.read_text().splitlines()
    assert {"rate = 0.5", "seed = 1", "epochs = 7", 'method = "CE"'} <= set(lines)
    assert f'warm_up_cache = "{table.out}/warm_up"' in lines


def test_what_is_done_is_not_run_again_and_the_table_grows(table):
    table.run(*TWO)
    code, output, journal = table.run("--rates", "50", "--methods", "CE", "DMI", "--seeds", "2")
    assert code == 0
    assert journal == ["started DMI/0", "ended DMI/0", "started DMI/1", "ended DMI/1"]
    assert "4 cells, 2 of them done" in output
    code, output, journal = table.run("--rates", "40", "--methods", "CE", "--seeds", "1")
    assert "| method | 40 % " in output
    assert "70.00 ± 0.71" not in output.split("40 %")[0]
    assert len([line for line in output.splitlines() if line.startswith("| DMI")]) == 1


def test_report_only_runs_nothing(table):
    code, output, journal = table.run("--report-only")
    assert (code, journal) == (1, [])
    assert f"There are no results in {table.out} yet.\n" in output
    table.run(*TWO)
    (table.out / "table.md").unlink()
    code, output, journal = table.run("--report-only")
    assert (code, journal) == (0, [])
    assert (table.out / "table.md").read_text(encoding="utf-8") in f"# Accuracy\n{output}"
    code, output, _ = table.run("--report-only", data="ablation")
    assert (code, output) == (1, f"There are no results of an ablation in {table.out} yet.\n")


def test_runs_are_parallel(table):
    # Each waits until the other has started; one after the other they would wait in vain.
    code, _, journal = table.run(
        *TWO, jobs=2, CE_0="wait for started CE/1", CE_1="wait for started CE/0"
    )
    assert code == 0
    assert sorted(journal[:2]) == ["started CE/0", "started CE/1"]


def test_the_warm_up_of_a_group_is_made_by_one_run(table):
    methods = ("--methods", "CE", "Forward", "PTD-F", "PTD-R", "--rates", "50", "--seeds", "1")
    fake = {"PTD__F_0": "linger", "CE_0": "wait for started PTD-F/0"}
    code, _, journal = table.run(*methods, jobs=4, **fake)
    assert code == 0
    opened = journal.index("ended PTD-F/0")
    assert set(journal[:opened]) == {"started PTD-F/0", "started CE/0", "ended CE/0"}
    assert {"started Forward/0", "started PTD-R/0"} <= set(journal[opened:])


def test_other_settings_are_not_mixed_into_a_table(table):
    table.run(*TWO, "--set", "epochs=7")
    code, output, journal = table.run(*TWO, "--set", "epochs=8", "lr=0.5")
    assert (code, journal) == (2, [])
    folder = Cell("fashion_mnist", 50, "CE", 0).folder(table.out)
    assert output == (
        f"{folder} was run with epochs = 7 (now 8), lr = its default (now 0.5), and 1 more cell "
        "like it. A table does not mix settings: choose another --out, or delete what is to be run "
        "anew.\n"
    )
    code, _, journal = table.run(
        "--rates", "50", "--methods", "CE", "--seeds", "3", "--set", "epochs=7"
    )
    assert (code, journal) == (0, ["started CE/2", "ended CE/2"])


def test_a_table_that_was_moved_goes_on(table, tmp_path):
    table.run(*TWO, "--data", "/one", "--threads-per-job", "1")
    shutil.move(table.out, tmp_path / "moved")
    code, _, journal = table.run(
        *TWO, "--data", "/two", "--threads-per-job", "2", out=tmp_path / "moved"
    )
    assert (code, journal) == (0, [])


def test_a_setting_that_cannot_be_is_told_once(table):
    code, output, journal = table.run(*TWO, "--set", "batch_size=0")
    assert (code, journal) == (2, [])
    assert output.count("batch_size must be positive; got 0.") == 1
    assert not table.out.exists()


def test_gpus_are_shared_out(table, monkeypatch):
    monkeypatch.setattr(command.parsing, "_gpus", lambda device: ["4", "6"])
    table.run(*TWO, jobs=2, CE_0="wait for started CE/1", CE_1="wait for started CE/0")
    gpus = {table.result("fashion_mnist", 50, "CE", seed)["gpu"] for seed in (0, 1)}
    assert gpus == {"4", "6"}


def test_the_ablation_has_its_own_table_and_shares_runs_of_one_matrix(table):
    table.run("--rates", "50", "--methods", "Forward-band", "PTD-F", "--seeds", "1", data="cifar10")
    methods = ("--methods", "Forward-band", "PTD-F")
    code, output, journal = table.run(
        *methods, "--parts", "10", "12", "--seeds", "1", data="ablation"
    )
    assert (code, journal) == (0, ["started PTD-F/0", "ended PTD-F/0"] * 2)
    assert "| R = 10 | **0.500**      | **0.500** (0.840 ± 0.030) |" in output
    assert "| R = 12 | **70.00**      | **70.00** (47.01 ± 2.65) |" in output
    config = Cell("cifar10", 50, "PTD-F", 0, 12).folder(table.out) / "cell.toml"
    assert "parts = 12" in config.read_text().splitlines()
    assert (table.out / "ablation" / "table.csv").read_text().count("\n") == 1 + 3 + 3
    before = (table.out / "table.md").read_text(encoding="utf-8")
    table.run("--report-only", data="cifar10")
    assert (table.out / "table.md").read_text(encoding="utf-8") == before


def test_without_scipy_nothing_is_begun(table, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (1, [])
    assert output == 'The significance test needs scipy: pip install "ptd_ext[train]".\n'


def test_without_matplotlib_the_table_is_still_written(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, output, _ = table.run(*TWO)
    assert code == 0
    sentence = 'Drawing needs matplotlib: pip install "ptd_ext[plot]"; table.png was left out.\n'
    assert sentence in output
    assert f"Written to {table.out}: table.md and table.csv.\n" in output
    assert not (table.out / "table.png").exists()
