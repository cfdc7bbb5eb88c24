"""Errors that a user can mend, as a sentence and an exit code instead of a traceback."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptd_ext.train.stopping import Stopped

__all__ = ["told_in_a_sentence"]


@contextmanager
def told_in_a_sentence(parser: argparse.ArgumentParser, out: Path | None = None) -> Iterator[None]:
    """End the command with what went wrong."""
    try:
        yield
    except Stopped as stopped:
        where = "" if out is None else f" --out {out}"
        parser.exit(
            stopped.code, f"\n{stopped}; everything is saved: continue with{where} --resume\n"
        )
    except (OSError, ValueError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
