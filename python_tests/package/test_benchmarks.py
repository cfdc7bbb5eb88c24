"""The scripts for people with a GPU run here as far as they can without one."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
METRIC_VALUES = {
    "gpu__time_duration.sum": "5312",
    "dram__bytes_read.sum": "123456",
    "dram__bytes_write.sum": "4096",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "71.5",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "20.25",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "48.75",
    "launch__registers_per_thread": "40",
}


@pytest.fixture
def load(monkeypatch):
    """Imports a script of benchmarks/, beside which its helpers lie."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.fixture
def operators(load):
    return load("cuda_operators").OPERATORS


def test_bench_cuda_runs_to_its_csv(load, operators, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(load("cuda_operators"), "STEPS", 1)  # torch.compile unrolls them
    path = tmp_path / "gpu.csv"
    load("bench_cuda").main(["--dry-run", "--csv", str(path)])
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["operator"] for row in rows} == set(operators)
    assert {row["pass"] for row in rows} == {"forward", "forward+backward"}
    facts = {"device", "capability", "driver", "cuda", "torch", "ptd_ext", "copy_GB_per_s"}
    assert facts <= rows[0].keys()
    for row in rows:
        assert int(row["bytes"]) > 0
        for peer in ("ptd_ext", "eager", "compile"):
            assert 0 < float(row[f"{peer}_p20"]) <= float(row[f"{peer}_us"])
            assert float(row[f"{peer}_us"]) <= float(row[f"{peer}_p80"])
            assert float(row[f"{peer}_wall_us"]) > 0
    assert "revised forward_loss" in capsys.readouterr().out


def test_bench_cuda_leaves_out_what_does_not_fit(load, operators, monkeypatch):
    bench_cuda = load("bench_cuda")

    def too_large(*_):
        raise torch.OutOfMemoryError

    broken = operators["simplex_projection"]._replace(eager=too_large)
    monkeypatch.setitem(operators, "simplex_projection", broken)
    rows = bench_cuda.Bench(dry_run=True, repeats=2).rows("simplex_projection", (5, 3, 2))
    for row in rows:
        assert row["ptd_ext_us"] > 0
        assert row["eager_us"] is None
        assert bench_cuda.line(row).count("–") >= 2


@NO_GPU
def test_bench_cuda_reports_that_there_is_no_gpu(load):
    with pytest.raises(SystemExit, match="No GPU was found"):
        load("bench_cuda").main([])


def test_operators_and_their_peers_agree(operators):
    for name, operator in operators.items():
        torch.manual_seed(0)
        inputs = operator.inputs(7, 5, 3, "cpu")
        ours, eager = operator.ours(*inputs), operator.eager(*inputs)
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, msg=name)


def test_least_bytes(load, operators):
    n, c, r = 4, 10, 3
    shared = {"logits": 4 * n * c, "weights": 4 * n * r, "labels": 8 * n, "parts": 4 * r * c * c}
    slack, step = 4 * c * c, 4 * (3 * n * r + r * r + r + 1)
    named = shared | {"parts": 3 * shared["parts"] // 10}  # three classes are labels of samples
    unlabelled = shared | {"labels": 0}
    column, whole, product = (sum(given.values()) for given in (named, shared, unlabelled))
    rows, matrices = shared["logits"], 4 * n * c * c
    expected = {  # the forward pass, and the backward pass
        "forward_loss": (column, column + rows),
        "reweight_loss": (column, column + rows),
        "revised forward_loss": (whole + slack + rows, whole + slack + rows + rows + slack),
        "clean_posterior": (column + rows, column + rows + rows),
        "noisy_posterior": (product + rows, product + rows + rows),
        "simplex_projection": (2 * rows, 3 * rows),
        "simplex_weights": (step, None),
        "project_transition": (2 * matrices, 3 * matrices),
    }
    for name, operator in operators.items():
        inputs = operator.inputs(n, c, r, "cpu")
        if inputs[1:] and inputs[1].dtype is torch.int64:
            inputs[1].copy_(torch.tensor([7, 2, 7, 0]))
        least = load("cuda_operators").least_bytes(inputs, operator.ours(*inputs))
        forward, backward = expected[name]
        both = {} if backward is None else {"forward+backward": forward + backward}
        assert least == {"forward": forward} | both, name


def test_profile_cuda_reports_that_ncu_is_missing(load, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="ncu was not found: install NVIDIA Nsight Compute"):
        load("profile_cuda").main(["forward_loss"])


@NO_GPU
def test_profile_cuda_reports_that_there_is_no_gpu(load, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/somewhere/{name}")
    with pytest.raises(SystemExit, match="No GPU was found"):
        load("profile_cuda").main(["forward_loss"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["softmax"], "invalid choice: 'softmax'"),
        (["forward_loss", "--size", "128"], "expected 3 arguments"),
        (["simplex_weights", "--backward"], "simplex_weights has no backward pass"),
    ],
)
def test_profile_cuda_checks_its_arguments(arguments, complaint, load, capsys):
    with pytest.raises(SystemExit):
        load("profile_cuda").main(arguments)
    assert complaint in capsys.readouterr().err


def profile(load, monkeypatch, output, *arguments, code=0):
    """Runs profile_cuda with a GPU and an ncu that prints `output`; returns how it was called."""
    calls = []

    def run(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, code, output, "")

    monkeypatch.setattr("shutil.which", lambda name: f"/somewhere/{name}")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("subprocess.run", run)
    load("profile_cuda").main(["forward_loss", *arguments])
    return calls[0]


def ncu_table():
    names = ["ID", "Kernel Name", "Block Size", "Grid Size", *METRIC_VALUES]
    values = ["0", "void ptd::loss<float>(ptd::Args)", "(128, 1, 1)", "(8, 1, 1)"]
    rows = [names, [""] * len(names), [*values, *METRIC_VALUES.values()]]
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    return "==PROF== Connected to process 1\n==PROF== Disconnected\n" + "\n".join(lines)


def test_profile_cuda_prints_what_ncu_measured(load, monkeypatch, capsys):
    arguments = ("--size", "128", "10", "20", "--kernel", "loss", "--backward")
    command = profile(load, monkeypatch, ncu_table(), *arguments)
    assert command[0] == "/somewhere/ncu"
    assert "regex:loss" in command
    inside = command[command.index(sys.executable) :]
    assert inside[2:] == [
        "forward_loss", "--inside-ncu", "--size", "128", "10", "20", "--backward"
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.count("void ptd::loss<float>(ptd::Args)") == printed.count("registers") == 1
    for value in METRIC_VALUES.values():
        assert f" {value}\n" in printed


@pytest.mark.parametrize(
    ("output", "code", "complaint"),
    [
        ("==PROF== Connected\n", 0, "No kernel whose name matches 'ptd::' ran"),
        ("==ERROR== ERR_NVGPUCTRPERM\n", 1, "may not read the GPU's counters"),
        ("==ERROR== out of cheese\n", 1, "out of cheese"),
    ],
)
def test_profile_cuda_reports_why_there_is_no_profile(output, code, complaint, load, monkeypatch):
    with pytest.raises(SystemExit, match=complaint):
        profile(load, monkeypatch, output, code=code)


def test_bench_transition_loss_reports_prepared_and_plain_parts(load):
    """One run has a row for each, and prints both times with both ratios."""
    bench = load("bench_transition_loss")
    times = {
        bench.OURS: 10.0, bench.PLAIN: 20.0, bench.COMPILED: 40.0, bench.FLOOR: 5.0,
        "eager_full": 100.0, "eager_column": 80.0,
    }  # fmt: skip
    rows = [
        {
            "contestant": name,
            "median_us": time,
            "peak_bytes": 3,
            "input_bytes": 2,
            "same_loss": "yes",
        }
        for name, time in times.items()
    ]
    summary = bench.summarise(rows)
    assert summary["best"] == "eager_column"
    assert (summary["ratio"], summary["plain"], summary["compiled"]) == (8, 4, 2)
    line = bench.line(((128, 10, 20), "none", "dense"), summary).split()
    assert line[5:] == ["10us", "20us", "80us", "eager_column", "8.0", "4.0", "2.0", "2.00", "1.50"]
    tensors = (torch.zeros(2, 3), torch.zeros(2).long(), torch.ones(2, 1), torch.eye(3)[None])
    assert {bench.OURS, bench.PLAIN} <= bench.contestants(*tensors, None, False).keys()
