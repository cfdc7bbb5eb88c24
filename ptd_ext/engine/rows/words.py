"""Texts as vectors: the weights of their words, projected where the words are many.

What is learned is plain data (words, their weights and singular vectors), so that a file can hold
it without code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_WORDS = 20_000  # the most frequent ones; the vectors of as many take 20 MB
_MAX_TEXTS = 20_000  # from which singular vectors are computed
_PIECE = 4096  # texts converted at a time


@dataclass(frozen=True, eq=False)
class WordVectors:
    """TF-IDF weights of the words of a text, as a unit vector, or its projection.

    Attributes:
        words: the words, [V].
        weights: the inverse document frequency of every word, float32 [V].
        components: the singular vectors that texts are projected on, float32 [K, V]; None where the
            words are few.
    """

    words: tuple[str, ...]
    weights: Tensor
    components: Tensor | None = None

    @classmethod
    def fit(cls, texts: Sequence[str], width: int, seed: int) -> WordVectors | None:
        """Learn the words that at least two texts have; None if there are none.

        Args:
            texts: the texts.
            width: the maximum length of a vector.
            seed: the seed of the projection.
        """
        from sklearn.decomposition import TruncatedSVD

        counter = _counter(min_df=2, max_features=MAX_WORDS)
        try:
            counts = counter.fit_transform(texts)
        except ValueError:  # not a word is left
            return None
        words = tuple(counter.get_feature_names_out().tolist())
        texts_with = np.bincount(counts.indices, minlength=len(words))
        weights = np.log((1 + len(texts)) / (1 + texts_with)) + 1
        found = cls(words, torch.from_numpy(weights.astype(np.float32)))
        if len(words) <= width:
            return found
        rows = np.arange(len(texts))
        if len(texts) > _MAX_TEXTS:
            rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[:_MAX_TEXTS])
        weighted = found._weighted(counts[rows])
        count = max(1, min(width, len(rows) - 1))
        svd = TruncatedSVD(count, random_state=seed % 2**32).fit(weighted)
        components = torch.from_numpy(svd.components_.astype(np.float32))
        return cls(words, found.weights, components)

    @property
    def width(self) -> int:
        """The length of a vector."""
        return len(self.words if self.components is None else self.components)

    def encode(self, texts: Sequence[str], into: NDArray[np.float64]) -> None:
        """Write the vectors of texts [N, width] to an array."""
        counter = _counter(vocabulary=self.words)
        for start in range(0, len(texts), _PIECE):
            rows = slice(start, start + _PIECE)
            weighted = self._weighted(counter.transform(texts[rows]))
            dense = None if self.components is None else self.components.numpy().T
            into[rows] = weighted.toarray() if dense is None else weighted @ dense

    def _weighted(self, counts: Any) -> Any:
        """Sparse counts [N, V] as unit vectors of (1 + log count) times the word's weight."""
        found = counts.astype(np.float32)
        found.data = (1 + np.log(found.data)) * self.weights.numpy()[found.indices]
        rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        squares = np.bincount(rows, found.data.astype(np.float64) ** 2, found.shape[0])
        found.data /= np.sqrt(squares)[rows].astype(np.float32)
        return found


def _counter(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(strip_accents="unicode", **options)
