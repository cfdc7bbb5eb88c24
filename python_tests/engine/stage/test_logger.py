"""The log: lines for people, records for programs."""

import io
import json

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
    log = Log(stream=stream, validation="given-label validation", test="clean test")
    log.open(tmp_path)
    log.epoch(RECORD)
    line = stream.getvalue()
    for part in ("train ", "2/3", "given-label validation  75.00 %", "clean test  80.00 %"):
        assert part in line
    assert line.endswith("1.5 s  validation likelihood -0.25\n")
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == RECORD


def test_a_test_accuracy_that_nobody_knows_is_not_printed():
    stream = io.StringIO()
    Log(stream=stream).epoch({n: v for n, v in RECORD.items() if n != "test_accuracy"})
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


def test_steps_pass_through_the_bar_where_there_is_no_terminal():
    assert list(Log(stream=io.StringIO()).bar(range(3), 3, "title")) == [0, 1, 2]
