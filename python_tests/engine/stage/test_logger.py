"""The log: lines for people, records for programs."""

import io
import json

import pytest

from ptd_ext.engine.stage.logger import Log

RECORD = {"stage": "train", "epoch": 2, "epochs": 3, "loss": 0.5, "validation_accuracy": 75.0}
RECORD |= {"validation_likelihood": -0.25, "test_accuracy": 80.0, "seconds": 1.5}


def test_a_log_prints_unless_it_is_quiet():
    for options, printed in (({}, "a line\n"), ({"quiet": True}, "")):
        stream = io.StringIO()
        Log(stream=stream, **options).info("a line")
        assert stream.getvalue() == printed


def test_an_epoch_is_a_line_and_a_record(tmp_path):
    stream = io.StringIO()
    names = {"validation": "given-label validation", "test": "clean test"}
    log = Log(stream=stream, verbose=True, **names)
    log.open(tmp_path)
    log.epoch(RECORD)
    line = stream.getvalue()
    for part in ("train ", "2/3", "given-label validation  75.00 %", "clean test  80.00 %"):
        assert part in line
    assert line.endswith("1.5 s  validation likelihood -0.25\n")
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == RECORD


def test_a_test_accuracy_that_nobody_knows_is_not_printed():
    stream = io.StringIO()
    Log(stream=stream, verbose=True).epoch(
        {n: v for n, v in RECORD.items() if n != "test_accuracy"}
    )
    assert "test" not in stream.getvalue()


def test_records_after_a_checkpoint_are_dropped(tmp_path):
    log = Log(quiet=True)
    log.open(tmp_path)
    for epoch in (1, 2):
        log.epoch({**RECORD, "epoch": epoch})
    log.back_to(log.records[:1])
    log.epoch({**RECORD, "epoch": 7})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 7]
    assert [record["epoch"] for record in log.records] == [1, 7]


def test_a_stage_is_a_line_unless_epochs_are_wanted():
    stream = io.StringIO()
    log = Log(stream=stream)
    log.begin("mlp", 5)
    log.detail("an estimate")
    for stage, epochs in (("warm up", 2), ("train", 3)):
        for epoch in range(1, epochs + 1):
            log.epoch({**RECORD, "stage": stage, "epoch": epoch, "epochs": epochs})
    first, second = stream.getvalue().splitlines()
    assert first.split()[:4] == ["mlp", "warm", "up", "2/2"]
    assert second.split()[:3] == ["mlp", "train", "3/3"]
    assert " 3.0 s" in first  # the seconds of its epochs
    assert " 4.5 s" in second
    log = Log(stream=stream, verbose=True)
    log.detail("an estimate")
    assert stream.getvalue().endswith("an estimate\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_with_the_time_left_moves_on_with_every_step():
    pytest.importorskip("tqdm")
    stream = Terminal()
    log = Log(stream=stream)
    log.begin("mlp", 4)
    log.back_to([RECORD])  # of a run that continues
    assert log._bar.n == 1
    for done, _ in enumerate(log.steps(range(4), 4, "warm up")):
        assert log._bar.n == 1 + done / 4
    log.epoch(RECORD)
    assert log._bar.n == 2
    log.close()
    shown = stream.getvalue()
    assert "training mlp:  50%" in shown
    assert "warm up" in shown
    assert "<" in shown  # time so far < time left


def test_steps_pass_through_where_there_is_no_terminal():
    assert list(Log(stream=io.StringIO()).steps(range(3), 3, "title")) == [0, 1, 2]
    for options in ({"quiet": True}, {"progress": False}):
        log = Log(stream=Terminal(), **options)
        log.begin("mlp", 4)
        assert log._bar is None
        log.close()
