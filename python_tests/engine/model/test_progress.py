"""What training on rows in memory prints."""

import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

import ptd_ext
from ptd_ext.cli import main
from ptd_ext.engine.model.progress import bar_on_terminals, check_progress, over_folds

RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(2, size=60)
X = RANDOM.standard_normal((60, 3)) + 4 * Y[:, None]


def find(**options):
    return ptd_ext.find_label_issues(X, Y, network="linear", epochs=2, **options)


def test_nothing_without_a_terminal(capsys):
    find()
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    find()
    printed = capsys.readouterr()
    assert "training linear" in printed.err
    assert printed.out == ""
    find(progress=False)
    assert capsys.readouterr() == ("", "")


def test_lines_on_request(capsys):
    find(progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert sum("held-out given-label" in line for line in lines) >= 5
    assert not any("clean" in line for line in lines)


def test_folds_have_a_bar_and_lines(capsys):
    find(progress="bar", cross_fit=2)
    assert "cross-fitting:  50%" in capsys.readouterr().err
    find(progress=True, cross_fit=2)
    assert "cross-fitting, fold 2 of 2" in capsys.readouterr().out
    find(progress=False, cross_fit=2)
    assert capsys.readouterr() == ("", "")


def test_another_word_gets_an_error_message():
    with pytest.raises(ValueError, match="progress must be True, False or \"bar\"; got 'loud'"):
        find(progress="loud")


def test_the_command_has_the_settings(tmp_path, capsys):
    np.savez(tmp_path / "own.npz", x=X, y=np.array(["no", "yes"])[Y])
    command = ["labels", str(tmp_path / "own.npz"), "--network", "linear", "--epochs", "2"]
    main(
        [*command, "--n-parts", "3", "--validation-fraction", "0.2", "--device", "cpu", "--verbose"]
    )
    assert "held-out given-label" in capsys.readouterr().out
    assert "no" in (tmp_path / "own-labels" / "labels.csv").read_text()
    with pytest.raises(SystemExit):
        main([*command, "--verbose", "--no-progress"])


def test_values_of_progress():
    for value in (True, False, "bar"):
        check_progress(value)
    for value in ("line", 1.5, None):
        with pytest.raises(ValueError, match="progress must be"):
            check_progress(value)


def test_a_bar_where_somebody_sees_it(monkeypatch):
    for terminal, expected in ((True, "bar"), (False, False)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        assert bar_on_terminals() == expected


def test_folds_pass_through():
    for progress in (True, False, "bar"):
        assert list(over_folds(iter("abc"), 3, progress)) == ["a", "b", "c"]
