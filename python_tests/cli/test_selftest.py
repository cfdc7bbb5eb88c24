"""`ptd-ext selftest` passes here, and notices what is wrong."""

from types import SimpleNamespace

import pytest
import torch

from ptd_ext import cli
from ptd_ext.cli import selftest

SOME = [case for case in selftest.CASES if case.n < 1000 and case.c <= 33]


@pytest.fixture
def few_cases(monkeypatch):
    monkeypatch.setattr(selftest, "CASES", SOME)


def run(capsys, *arguments):
    code = 0
    try:
        cli.main(["selftest", *arguments])
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr().out


def test_passes(few_cases, capsys):
    code, report = run(capsys, "--device=cpu", "--no-timing")
    assert code == 0, report
    assert report.startswith("ptd_ext")  # the output of `ptd-ext info`
    assert report.endswith("All operators passed.\n")
    assert all(f"ok      {name}" in report for name in selftest.OPERATORS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_reports_that_there_is_no_gpu(few_cases, capsys, monkeypatch):
    monkeypatch.setattr(selftest, "TIMED_CASES", {"cpu": [selftest.Case(8, 4, 2)]})
    code, report = run(capsys)
    assert code == 0
    assert "No GPU was found: testing the CPU kernels." in report
    assert "plain torch" in report


def test_projections_meet_entries_to_clamp():
    """Without any, the operator would be a division by one."""
    batch = selftest.make_batch(selftest.Case(1, 10, 5))
    library = SimpleNamespace(project_transition=lambda matrix: matrix)
    matrix = selftest.OPERATORS["project_transition"](library, batch)
    assert 0.2 < (matrix < 0).float().mean() < 0.8


def test_labels_move_and_stay_integers():
    batch = selftest.make_batch(selftest.Case(4, 3, 2, 0.1))
    moved = selftest.moved(batch, "meta", torch.float64)
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}
    assert moved["labels"].dtype is torch.int64
    assert {moved[name].dtype for name in selftest.LEAVES} == {torch.float64}


@pytest.mark.parametrize(
    ("defect", "complaint"),
    [
        (lambda result: result + 1e-3, "result is off by"),
        (lambda result: result.clone().index_fill_(-1, torch.tensor(0), torch.nan), "has NaN"),
        (lambda result: result + 1e-7 * torch.rand(()), "result differs from run to run"),
        (lambda result: 2 * result - result.detach(), "gradient of logits is off by"),
    ],
)
def test_notices(defect, complaint, few_cases, capsys, monkeypatch):
    right = selftest.OPERATORS["noisy_posterior"]

    def broken(library, batch):
        result = right(library, batch)
        return defect(result) if library is selftest.functional else result

    monkeypatch.setattr(selftest, "OPERATORS", {"noisy_posterior": broken})
    code, report = run(capsys, "--device=cpu", "--no-timing")
    assert code == 1
    assert "FAILED  noisy_posterior" in report
    assert complaint in report
    assert report.endswith("1 of 1 operators failed.\n")


def test_choice_of_the_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    monkeypatch.setattr(selftest.devices, "unsupported", lambda index: None)
    assert selftest.choose_device() == ("cuda", "Testing the CUDA kernels, on Tesla V100.")
    monkeypatch.setattr(selftest.devices, "unsupported", lambda index: f"cuda:{index} is too old.")
    assert selftest.choose_device() == ("cpu", "cuda:0 is too old. Testing the CPU kernels.")


def test_a_gpu_report_shows_how_to_run_under_compute_sanitizer(capsys, monkeypatch):
    monkeypatch.setattr(selftest, "checks", lambda device: [("ok", True)])
    _, report = run(capsys, "--device=cuda", "--no-timing")
    line = "  compute-sanitizer python -m ptd_ext selftest --no-timing\n"
    assert f"check memory accesses too, run:\n{line}" in report
    assert "compute-sanitizer" not in run(capsys, "--device=cpu", "--no-timing")[1]
