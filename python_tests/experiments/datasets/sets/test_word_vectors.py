"""Word vectors in text and .npy files."""

import numpy as np
import pytest

from ptd_ext.experiments.datasets.locate import MissingFileError
from ptd_ext.experiments.datasets.sets.word_vectors import read_vectors

WORDS = {"cat": 0, "sat": 1, "unknown": 2}
TEXT = "3 2\nthe 1 2\nsat 3 4\nnew york 9 9\ncat 5 6\nsat 7 8\n"


def check(tokens, vectors):
    assert tokens.tolist() == [2, 1, 0]  # in the order of the vectors
    assert vectors.tolist() == [[0, 0], [3, 4], [5, 6]]


def test_text_files(tmp_path):
    path = tmp_path / "glove.2d.txt"
    path.write_text(TEXT)
    check(*read_vectors(path, None, WORDS))
    check(*read_vectors(None, tmp_path, WORDS))


def test_arrays_beside_a_list_of_words(tmp_path):
    np.save(tmp_path / "v.npy", np.array([[1, 2], [3, 4], [5, 6], [7, 8.0]]))
    with pytest.raises(MissingFileError, match=r"v\.words"):
        read_vectors(tmp_path / "v.npy", None, WORDS)
    (tmp_path / "v.words").write_text("the\nsat\ncat\nsat\n")
    check(*read_vectors(tmp_path / "v.npy", None, WORDS))
    (tmp_path / "v.words").write_text("the\nsat\n")
    with pytest.raises(ValueError, match=r"for each of the 2 words in .*; got float64 \[4, 2\]"):
        read_vectors(tmp_path / "v.npy", None, WORDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat 1 2\nsat 3 x\n", r"line 2, must be a word and 2 numbers; got 'sat 3 x'"),
        ("cat 1 2\nsat 3\n", r"line 2, must be a word and 2 numbers"),
        ("cat\n", r"line 1, must be a word and 1 numbers"),
        ("dog 1 2\n", "must hold vectors of words in the messages"),
        ("cat 1e300 2\n", "must hold finite numbers"),
        ("cat nan 2\n", "must hold finite numbers"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    path = tmp_path / "v.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_vectors(path, None, WORDS)


def test_several_files(tmp_path):
    for name in ("glove.a.txt", "glove.b.txt"):
        (tmp_path / name).write_text(TEXT)
    with pytest.raises(ValueError, match=r"glove\.a\.txt, .*glove\.b\.txt"):
        read_vectors(None, tmp_path, WORDS)
