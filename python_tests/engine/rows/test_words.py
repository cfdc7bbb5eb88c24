"""Texts as vectors of words."""

import numpy as np
import pytest

from ptd_ext.engine.rows import words as module
from ptd_ext.engine.rows.words import WordVectors

feature_extraction = pytest.importorskip("sklearn.feature_extraction.text")
RANDOM = np.random.default_rng(0)
WORDS = np.array([f"word{number}" for number in range(60)])
TEXTS = [" ".join(RANDOM.choice(WORDS, 15)) for _ in range(100)]


def vectors(words, texts):
    found = np.zeros((len(texts), words.width))
    words.encode(texts, found)
    return found


def test_weights_are_those_of_scikit_learn():
    options = {"sublinear_tf": True, "min_df": 2, "strip_accents": "unicode"}
    peer = feature_extraction.TfidfVectorizer(**options)
    texts = [*TEXTS, "Wörd1 word1 word1", "", "nobody"]
    words = WordVectors.fit(texts, 1000, 0)
    expected = peer.fit_transform(texts).toarray()
    assert words.words == tuple(peer.get_feature_names_out())
    np.testing.assert_allclose(vectors(words, texts), expected, atol=1e-6)
    new = ["word3 WORD3 unseen", "unseen"]
    np.testing.assert_allclose(vectors(words, new), peer.transform(new).toarray(), atol=1e-6)


def test_many_words_are_projected():
    words = WordVectors.fit(TEXTS, 8, 0)
    assert words.components.shape == (8, 60)
    assert words.width == 8
    whole = vectors(WordVectors.fit(TEXTS, 60, 0), TEXTS)
    expected = whole @ words.components.numpy().T
    np.testing.assert_allclose(vectors(words, TEXTS), expected, atol=1e-6)
    again = WordVectors.fit(TEXTS, 8, 0)
    np.testing.assert_array_equal(again.components.numpy(), words.components.numpy())


def test_words_and_texts_are_limited(monkeypatch):
    monkeypatch.setattr(module, "MAX_WORDS", 20)
    monkeypatch.setattr(module, "_MAX_TEXTS", 30)
    words = WordVectors.fit(TEXTS, 8, 0)
    assert len(words.words) == 20
    assert words.components.shape == (8, 20)


def test_pieces_do_not_change_vectors(monkeypatch):
    words = WordVectors.fit(TEXTS, 8, 0)
    expected = vectors(words, TEXTS)
    monkeypatch.setattr(module, "_PIECE", 7)
    np.testing.assert_array_equal(vectors(words, TEXTS), expected)


@pytest.mark.parametrize("texts", [[], ["!", "?"], ["one", "two", "three"], ["", ""]])
def test_texts_that_share_no_words(texts):
    assert WordVectors.fit(texts, 8, 0) is None
