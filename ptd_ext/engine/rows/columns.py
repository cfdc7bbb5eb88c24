"""The columns of a table as numbers: the rows of data frames, and texts as a table of one column.

Numbers stay numbers, dates become days, categories take a column per value, and texts become
vectors of words. Missing numbers are the median, with a column that marks them; missing categories
are one more category. Ids, constants and the like are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.column import KINDS, Column, texts_of
from ptd_ext.engine.rows.labels import is_missing
from ptd_ext.engine.rows.words import WordVectors
from ptd_ext.utils.arguments import is_complex
from ptd_ext.utils.bounded_files import shortened

_TEXT_WIDTH = 256  # columns of all texts together
_MIN_TEXT_WIDTH = 32  # columns of each
_NAMES_SHOWN = 400  # characters of names in an error message


def is_frame(X: Any) -> bool:  # noqa: N803
    """True if X is a data frame, of pandas or of a library that looks like it."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


def are_texts(X: Any) -> bool:  # noqa: N803
    """True for a list, an array or a column of strings, of which some may be missing."""
    listed = isinstance(X, (list, tuple)) or (hasattr(X, "to_numpy") and not is_frame(X))
    if not listed and not isinstance(X, np.ndarray):
        return False
    if getattr(X, "ndim", 1) != 1:
        return False
    strings = False
    for value in X:
        if not isinstance(value, str) and not is_missing(value):
            return False
        strings = strings or isinstance(value, str)
    return strings


def has_columns(X: Any) -> bool:  # noqa: N803
    """True for what `Columns` encodes: data frames and texts."""
    return is_frame(X) or are_texts(X)


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame in their order, or the one column of texts.

    Attributes:
        entries: what becomes of each column.
        texts: true if the rows are texts themselves.
    """

    entries: tuple[Column, ...]
    texts: bool = False

    @classmethod
    def fit(
        cls,
        X: Any,  # noqa: N803
        *,
        rows: NDArray[np.int64] | None = None,
        seed: int = 0,
        only: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
    ) -> Columns:
        """Find out what each column holds.

        Args:
            X: the data frame or texts.
            rows: the positions of the rows to learn from; all by default.
            seed: the seed of the projection of texts.
            only: the names of the columns to use, also if they look like ids; all by default.
            ignore: the names of columns to leave out.
        """
        if are_texts(X):
            if only is not None or len(ignore):
                raise ValueError("columns and ignore must not be given for texts: X has no names.")
            values = _taken(_text_values(X), rows)
            words = WordVectors.fit(texts_of(values), _TEXT_WIDTH, seed)
            if words is None:
                raise ValueError(
                    "X must be texts that share words; no word is in two of them. Give embeddings "
                    "of the texts as X, or name an encoder."
                )
            return cls((Column("text", "text", _text_note(words), words=words),), texts=True)
        if len(X.columns) == 0 or len(X) == 0:
            raise ValueError(f"X must have rows and columns; got {list(X.shape)}.")
        _check_names(X)
        names = list(map(str, X.columns))
        only = None if only is None else _listed(only, names, "columns")
        ignore = _listed(ignore, names, "ignore")
        entries = []
        for given, name in zip(X.columns, names, strict=True):
            if name in ignore or (only is not None and name not in only):
                entries.append(Column(name, "left out", "left out, as asked"))
                continue
            column, values = X[given], _taken(_values(X, given), rows)
            category = str(getattr(column, "dtype", "")).lower().startswith("categor")
            entries.append(Column.fit(name, values, named=bool(only), category=category))
        count = max(1, sum(entry.kind == "text" for entry in entries))
        width = max(_MIN_TEXT_WIDTH, _TEXT_WIDTH // count)
        for position, given in enumerate(X.columns):
            if entries[position].kind == "text":
                texts = texts_of(_taken(_values(X, given), rows))
                entries[position] = _with_words(entries[position], texts, width, seed)
        found = cls(tuple(entries))
        if not found.width:
            reasons = shortened("; ".join(found.summary()), _NAMES_SHOWN)
            raise ValueError(
                f"X must have a column to learn from; it has none ({reasons}). Name the columns to "
                "use in columns, also if they look like ids."
            )
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(entry.name for entry in self.entries)

    @property
    def width(self) -> int:
        """The number of columns that the network gets."""
        return sum(entry.width for entry in self.entries)

    def text_blocks(self) -> list[slice]:
        """The columns of each text among those that the network gets."""
        ends = np.cumsum([entry.width for entry in self.entries]).tolist()
        return [
            slice(end - entry.width, end)
            for end, entry in zip(ends, self.entries, strict=True)
            if entry.kind == "text"
        ]

    def summary(self) -> list[str]:
        """What becomes of each column, a line for each."""
        return [f"{shortened(entry.name)}: {entry.note}" for entry in self.entries]

    def brief(self) -> str:
        """The numbers of columns of each kind, and the names of those that are left out."""
        counts = Counter(entry.kind for entry in self.entries)
        plural = {"category": "categories"}
        kinds = [
            f"{counts[kind]} {kind if counts[kind] == 1 else plural.get(kind, kind + 's')}"
            for kind in KINDS
            if counts[kind] and kind != "left out"
        ]
        out = ", ".join(shortened(each.name) for each in self.entries if each.kind == "left out")
        return shortened(", ".join(kinds) + (f"; left out: {out}" if out else ""), _NAMES_SHOWN)

    def encode(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return numbers [N, width]; a category that `fit` has not seen is zero everywhere."""
        if self.texts:
            if not are_texts(X):
                raise TypeError(f"X must be texts, as in fit; got {type(X).__name__}.")
            columns = {"text": _text_values(X)}
        else:
            columns = self._columns(X)
        found = np.zeros((len(X), self.width))
        start = 0
        for entry in self.entries:
            if entry.width:
                entry.encode(columns[entry.name], found[:, start : start + entry.width])
                start += entry.width
        return found

    def _columns(self, frame: Any) -> dict[str, NDArray[Any]]:
        """The columns that are used, by name."""
        used = [entry.name for entry in self.entries if entry.width]
        if not is_frame(frame):
            raise TypeError(
                f"X must be a data frame with the columns {shortened(used, _NAMES_SHOWN)}, as in "
                f"fit; got {type(frame).__name__}."
            )
        _check_names(frame)
        given = {str(name): name for name in frame.columns}
        missing = [name for name in used if name not in given]
        if missing:
            raise ValueError(
                f"X must have the columns of fit; it lacks {missing[0]!r}. It has "
                f"{shortened(list(given), _NAMES_SHOWN)}."
            )
        return {name: _values(frame, given[name]) for name in used}


def _with_words(column: Column, texts: list[str], width: int, seed: int) -> Column:
    """A text with its words, or left out if there are none."""
    words = WordVectors.fit(texts, width, seed)
    if words is None:
        note = "left out: strings that share no words"
        return replace(column, kind="left out", note=note)
    return replace(column, words=words, note=_text_note(words))


def _text_note(words: WordVectors) -> str:
    reduced = "" if words.components is None else f", reduced to {words.width} columns"
    return f"text of {len(words.words):,} different words (TF-IDF){reduced}"


def _listed(names: Any, known: list[str], argument: str) -> list[str]:
    """The names of columns that an argument gives, as strings."""
    listed = [names] if isinstance(names, str) else list(map(str, names))
    for name in listed:
        if name not in known:
            raise ValueError(
                f"{argument} must name columns of X; it has no column {shortened(repr(name))}. It "
                f"has {shortened(', '.join(known), _NAMES_SHOWN)}."
            )
    return listed


def _check_names(frame: Any) -> None:
    repeated = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if repeated:
        raise ValueError(f"X has several columns {repeated[0]!r}: give each a different name.")


def _taken(values: NDArray[Any], rows: NDArray[np.int64] | None) -> NDArray[Any]:
    return values if rows is None else values[rows]


def _text_values(X: Any) -> NDArray[Any]:  # noqa: N803
    values = np.empty(len(X), dtype=object)
    values[:] = X.to_numpy() if hasattr(X, "to_numpy") else list(X)
    return values


def _values(frame: Any, name: Any) -> NDArray[Any]:
    values: NDArray[Any] = frame[name].to_numpy()
    if is_complex(values):
        raise ValueError(
            f"column {name!r} of X holds complex numbers. Give real and imaginary part as two "
            "columns."
        )
    return values if values.dtype.kind in "biufmMO" else values.astype(object)
