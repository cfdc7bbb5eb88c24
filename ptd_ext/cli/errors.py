"""Error messages for users, without a traceback."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptd_ext.engine.training.signals import Stopped
from ptd_ext.utils.extras import optional_packages


@contextmanager
def report_errors(
    parser: argparse.ArgumentParser, again: Callable[[], str] = str
) -> Iterator[None]:
    """Turn exceptions that a user can correct into an error message and an exit code.

    Args:
        parser: the parser of the command.
        again: returns the command that continues a stopped run.
    """
    try:
        with optional_packages(parser.prog):
            yield
    except Stopped as stopped:
        parser.exit(
            stopped.code, f"\n{stopped}; the checkpoint is saved. Continue with {again()}\n"
        )
    except KeyboardInterrupt:
        parser.exit(130, "\nstopped\n")
    except (OSError, ValueError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
