"""20 Newsgroups as rows of words: the NEWS of experiments with label noise."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from ptd_ext.train.data.dataset import DataSet
from ptd_ext.train.data.formats.tar import TarLimits, read_tar
from ptd_ext.train.data.locate import MissingFileError
from ptd_ext.train.data.sets.word_vectors import read_vectors
from ptd_ext.train.data.split import split
from ptd_ext.utils.bounded_files import read_bytes

__all__ = ["HEADERS", "LENGTH", "load_news", "words_of"]

HOME = "http://qwone.com/~jason/20Newsgroups/"
# The 19,997 messages are split as in the paper, any other number of them in the same proportion.
MESSAGES, TEST_MESSAGES = 19_997, 6_000
TEST_SHARE = 0.3
# Words per text. 97 % of the messages have fewer; 1,000 is what others pad them to.
LENGTH = 1000
HEADERS = ("strip", "subject", "keep")

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_FOLDERS = ("20_newsgroup", "20_newsgroups", "20news-19997", "20news", "news", "news20")
# The longest message has 160 KB, all of them have 44 MB and 180,000 different words.
_MAX_MESSAGE, _MAX_TEXT, _MAX_MESSAGES, _MAX_WORDS = 1 << 22, 1 << 28, 100_000, 2_000_000
_WORD = re.compile(r"[^\W_]+")
_HEADER = re.compile(r"[!-9;-~]+:")
_SUBJECT = re.compile(r"^subject:(.*(?:\n[ \t].*)*)", re.IGNORECASE | re.MULTILINE)


def load_news(
    root: Path | str | None,
    seed: int,
    vectors: Path | str | None,
    length: int | None,
    headers: str | None,
) -> DataSet:
    """Tokens int32 [N, length] of the messages, and the vectors of the words they mean.

    Words are runs of letters and digits in lower case. Those without a vector are left out, the
    first `length` others are kept, and the rest of the row is padding, token 0. The seed determines
    the split into training and test part. Some messages were posted to several groups and are there
    once for each; they are not treated specially.

    Args:
        root: A folder `<group>/<message>`, one that holds it, or an archive (.tar, .tar.gz,
            .tar.xz, .tar.bz2) of it, which is not unpacked.
        seed: The seed of the split.
        vectors: The file of word vectors; see `word_vectors`.
        length: Words per text, 1000 by default.
        headers: `strip` (the default) drops the lines above the first empty one, which name the
            group and the sender; `subject` drops all of them but the subject; `keep` keeps them.
    """
    length = LENGTH if length is None else length
    headers = HEADERS[0] if headers is None else headers
    if not isinstance(length, int) or length < 1:
        raise ValueError(f"length must be a number of words, at least 1; got {length}.")
    if headers not in HEADERS:
        raise ValueError(f"headers must be one of {', '.join(HEADERS)}; got {headers!r}.")
    source, places = _source(root)
    if source is None:
        wanted = "the folders of 20 Newsgroups or an archive of them"
        raise MissingFileError("news", wanted, places, HOME)

    ids: dict[str, int] = {}
    texts: list[tuple[str, str, array[int]]] = []
    for group, name, text in _messages(source):
        # Words are stored as numbers, which take a hundredth of the memory.
        numbers = array("i", (ids.setdefault(word, len(ids)) for word in words_of(text, headers)))
        texts.append((group, name, numbers))
        if len(texts) > _MAX_MESSAGES or len(ids) > _MAX_WORDS:
            raise ValueError(
                f"{source} must hold at most {_MAX_MESSAGES:,} messages of {_MAX_WORDS:,} "
                "different words; it holds more."
            )
    groups = sorted({group for group, _, _ in texts})
    if len(groups) < 2:
        raise ValueError(f"{source} must hold two or more groups of messages; got {len(groups)}.")
    # An archive holds its files in any order.
    texts.sort(key=lambda text: text[:2])

    token_of, embedding = read_vectors(vectors, root, ids)
    tokens = np.zeros((len(texts), length), dtype=np.int32)
    for row, (_, _, numbers) in zip(tokens, texts, strict=True):
        known = token_of[np.frombuffer(numbers, dtype=np.intc)]
        known = known[known != 0][:length]
        row[: len(known)] = known
    label_of = {group: label for label, group in enumerate(groups)}
    labels = torch.tensor([label_of[group] for group, _, _ in texts])
    held = TEST_MESSAGES if len(texts) == MESSAGES else round(len(texts) * TEST_SHARE)
    train, test = split(len(texts), held, seed)
    inputs = torch.from_numpy(tokens)
    return DataSet(
        "news",
        *(inputs[train], labels[train], inputs[test], labels[test]),
        classes=len(groups),
        class_names=tuple(groups),
        mean=None,
        std=None,
        embedding=embedding,
        train_rows=train,
        test_rows=test,
        row_names=np.array([f"{group}/{name}" for group, name, _ in texts], dtype=object),
    )


def words_of(text: str, headers: str = "strip") -> list[str]:
    """The words of a message, in lower case."""
    if headers != "keep" and _HEADER.match(text):
        head, _, body = text.partition("\n\n")
        subject = _SUBJECT.search(head) if headers == "subject" else None
        text = f"{subject[1]}\n{body}" if subject else body
    return _WORD.findall(text.lower())


def _source(root: Path | str | None) -> tuple[Path | None, list[Path]]:
    """The folder or archive with the messages, and every place that was looked at."""
    if root is None:
        return None, []
    root = Path(root)
    if root.is_file():
        return root, [root]
    places = [root, *(root / name for name in _FOLDERS)]
    for place in places:
        if not place.is_dir():
            continue
        # A group's name has dots in it: comp.graphics.
        if any("." in path.name and path.is_dir() for path in place.iterdir()):
            return place, places
        archives = [
            path
            for path in sorted(place.iterdir())
            if path.is_file() and "news" in path.name.lower() and path.name.endswith(_ARCHIVES)
        ]
        if archives:
            return archives[0], places
    return None, places


def _messages(source: Path) -> Iterator[tuple[str, str, str]]:
    """Group, name and text of every message."""
    if source.is_dir():
        left = _MAX_TEXT
        for group in sorted(path for path in source.iterdir() if path.is_dir()):
            for path in sorted(path for path in group.iterdir() if path.is_file()):
                data = read_bytes(path, min(_MAX_MESSAGE, left))
                left -= len(data)
                yield group.name, path.name, _decode(data)
        return
    limits = TarLimits(_MAX_MESSAGE, _MAX_TEXT, 2 * _MAX_MESSAGES)
    for member, data in read_tar(source, lambda member: all(_group_and_name(member)), limits):
        yield *_group_and_name(member), _decode(data)


def _group_and_name(path: str) -> tuple[str, str]:
    """The last two parts of a path in an archive; the name is empty for hidden files."""
    *_, group, name = ("", "", *path.split("/"))
    return group, "" if name.startswith(".") else name


def _decode(data: bytes) -> str:
    return data.decode("latin-1").replace("\r\n", "\n")
