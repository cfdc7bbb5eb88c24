"""Errors that a user can mend, as a sentence and an exit code instead of a traceback."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptd_ext.train.engine.signals import Stopped

__all__ = ["told_in_a_sentence"]


@contextmanager
def told_in_a_sentence(
    parser: argparse.ArgumentParser, again: Callable[[], str] = str
) -> Iterator[None]:
    """End the command with what went wrong; `again` says how a stopped one goes on."""
    try:
        yield
    except Stopped as stopped:
        parser.exit(stopped.code, f"\n{stopped}; everything is saved. Continue with {again()}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nstopped\n")
    except (OSError, ValueError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
