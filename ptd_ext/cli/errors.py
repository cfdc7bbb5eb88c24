"""Errors that a user can correct, reported as a sentence and an exit code, not a traceback."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptd_ext.train.engine.signals import Stopped

__all__ = ["report_errors"]


@contextmanager
def report_errors(
    parser: argparse.ArgumentParser, again: Callable[[], str] = str
) -> Iterator[None]:
    """Exit with a sentence on what went wrong; `again` is the command that continues a run."""
    try:
        yield
    except Stopped as stopped:
        parser.exit(stopped.code, f"\n{stopped}; everything is saved. Continue with {again()}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nstopped\n")
    except (OSError, ValueError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
