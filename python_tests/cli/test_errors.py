"""How a command ends after an error or a signal."""

import argparse
import signal

import pytest

from ptd_ext.cli.errors import report_errors
from ptd_ext.engine.training.signals import Stopped

PARSER = argparse.ArgumentParser(prog="ptd-ext try")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("x must be 1; got 2."), 2, "ptd-ext try: x must be 1; got 2.\n"),
        (FileNotFoundError("a.csv does not exist."), 2, "ptd-ext try: a.csv does not exist.\n"),
        (ImportError("Drawing needs matplotlib."), 2, "ptd-ext try: Drawing needs matplotlib.\n"),
        (KeyboardInterrupt(), 130, "\nstopped\n"),
        (
            Stopped(signal.SIGTERM),
            143,
            "\nstopped by SIGTERM; the checkpoint is saved. Continue with ptd-ext try again\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_a_message_and_an_exit_code(capsys, error, code, message):
    with pytest.raises(SystemExit) as ended, report_errors(PARSER, lambda: "ptd-ext try again"):
        raise error
    assert ended.value.code == code
    assert capsys.readouterr().err == message


def test_other_errors_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), report_errors(PARSER):
        raise ZeroDivisionError
