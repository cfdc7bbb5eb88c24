"""A random sample of the labels, drawn before anyone looks, to measure a list with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import id_list
from ptd_ext.label_issues.review.decisions import COLUMNS
from ptd_ext.utils.arguments import check_integer
from ptd_ext.utils.csv_files import write_csv

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

_DIGITS = 12  # kept of a digest
_MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class Audit:
    """Rows to review in the given order: a random half from the flagged ones, half from the rest.

    Attributes:
        name: the number of rows, the seed and a digest of the list. Every decision carries it, so
            that :meth:`ptd_ext.LabelIssues.evaluate` recognises the sample and draws it again.
        positions: the positions of the rows in the findings, in mixed order, [n].
        ids: their ids, [n].
        given_label: their given labels, [n].
    """

    name: str
    positions: NDArray[np.int64]
    ids: NDArray[Any]
    given_label: NDArray[Any]

    def __len__(self) -> int:
        return len(self.positions)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a CSV file whose columns `decision` and `verified_label` are to be filled in.

        It shows neither what is suggested nor which rows are flagged.
        """
        write_csv(path, COLUMNS, self._lines())
        return Path(path)

    def _lines(self) -> Iterator[list[Any]]:
        for row, label in zip(id_list(self.ids), self.given_label.tolist(), strict=True):
            known = {"id": row, "given_label": label, "audit": self.name}
            yield [known.get(column, "") for column in COLUMNS]


def draw_audit(found: LabelIssues, n: int = 200, random_state: int = 0) -> Audit:
    """Draw the sample; arguments as of :meth:`ptd_ext.LabelIssues.audit`."""
    n = check_integer(n, "n")
    seed = check_integer(random_state, "random_state", 0, _MAX_SEED)
    ids = found.id_strings()
    if len(set(ids)) < len(ids):
        raise ValueError("ids must be distinct for an audit; some rows share one.")
    open_rows = ~found.is_verified
    flagged = np.flatnonzero(found.is_label_issue & open_rows)
    rest = np.flatnonzero(~found.is_label_issue & open_rows)
    n_flagged = min(len(flagged), max(n // 2, n - len(rest)))
    # A hash of the id and the seed gives every row its place: the same in any order of the rows
    # and with any version of NumPy's generators.
    places = _hashes(ids, f"draw {seed}")
    drawn = [
        stratum[np.argsort(places[stratum], kind="stable")[:count]]
        for stratum, count in ((flagged, n_flagged), (rest, n - n_flagged))
    ]
    positions = np.concatenate(drawn)
    order = np.argsort(_hashes([ids[row] for row in positions.tolist()], f"show {seed}"))
    positions = positions[order]
    return Audit(
        name=f"{n}-{seed}-{_digest(found, ids)}",
        positions=positions,
        ids=found.ids[positions],
        given_label=found.given_label[positions],
    )


def redraw(found: LabelIssues, name: str) -> Audit:
    """The audit of this name; raises ValueError if it is that of another list."""
    n, _, rest = name.partition("-")
    seed = rest.partition("-")[0]
    if n.isdecimal() and seed.isdecimal() and int(n) > 0 and int(seed) <= _MAX_SEED:
        drawn = draw_audit(found, int(n), int(seed))
        if drawn.name == name:
            return drawn
    raise ValueError(
        f"reviewed must be decisions on an audit of these findings; their audit {name!r} was drawn "
        "from others. Evaluate them on the findings that they were drawn from, such as those that "
        "LabelIssues.save wrote."
    )


def _hashes(ids: list[str], key: str) -> NDArray[np.uint64]:
    """A hash of 64 bits for every id."""
    start = hashlib.blake2b(key.encode(), digest_size=8)
    found = bytearray()
    for each in ids:
        state = start.copy()
        state.update(b"\0" + each.encode(errors="surrogatepass"))
        found += state.digest()
    return np.frombuffer(bytes(found), dtype="<u8")


def _digest(found: LabelIssues, ids: list[str]) -> str:
    """A digest of the ids, and of the rows that are flagged or verified."""
    masks = np.stack([found.is_label_issue, found.is_verified])
    state = hashlib.sha256(np.packbits(masks).tobytes())
    state.update("\0".join(ids).encode(errors="surrogatepass"))
    return state.hexdigest()[:_DIGITS]
