"""20 Newsgroups as rows of words: the NEWS of experiments with label noise."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from ptd_ext.engine.rows.split import hold_out
from ptd_ext.experiments.datasets.dataset import DataSet
from ptd_ext.experiments.datasets.locate import MissingFileError
from ptd_ext.experiments.datasets.sets.word_vectors import read_vectors
from ptd_ext.utils.bounded_files import read_files
from ptd_ext.utils.formats.tar import read_tar

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
    *,
    word_vectors: Path | str | None = None,
    text_length: int = LENGTH,
    text_headers: str = HEADERS[0],
) -> DataSet:
    """Tokens int32 [N, text_length] of the messages, and the vectors of their words.

    Words are runs of letters and digits in lower case. Those without a vector are left out, the
    first `text_length` others are kept, and the rest of the row is padding, token 0. The seed
    determines the split into training and test part. A message that was posted to several groups
    is a sample of each.

    Args:
        root: a folder `<group>/<message>`, one that contains it, or an archive (.tar, .tar.gz,
            .tar.xz, .tar.bz2) of it, which is not unpacked.
        seed: seed of the split.
        word_vectors: the file of word vectors; see `read_vectors`.
        text_length: words per message.
        text_headers: `strip` drops the lines above the first empty one, which name the group and
            the sender; `subject` drops all of them except the subject; `keep` keeps them.
    """
    if text_length < 1:
        raise ValueError(f"text_length must be at least 1 word; got {text_length}.")
    if text_headers not in HEADERS:
        raise ValueError(f"text_headers must be one of {', '.join(HEADERS)}; got {text_headers!r}.")
    source, places = _source(root)
    if source is None:
        wanted = "the folders of 20 Newsgroups or an archive of them"
        raise MissingFileError("news", wanted, places, HOME)

    ids: dict[str, int] = {}
    posts: list[tuple[str, str, array[int]]] = []
    for group, name, text in _messages(source):
        # Words are stored as numbers, which take a hundredth of the memory.
        numbers = array(
            "i", (ids.setdefault(word, len(ids)) for word in words_of(text, text_headers))
        )
        posts.append((group, name, numbers))
        if len(posts) > _MAX_MESSAGES or len(ids) > _MAX_WORDS:
            raise ValueError(
                f"{source} must hold at most {_MAX_MESSAGES:,} messages of {_MAX_WORDS:,} "
                "different words; it holds more."
            )
    groups = sorted({group for group, _, _ in posts})
    if len(groups) < 2:
        raise ValueError(f"{source} must hold two or more groups of messages; got {len(groups)}.")
    # An archive holds its files in any order.
    posts.sort(key=lambda text: text[:2])

    token_of, embedding = read_vectors(word_vectors, root, ids)
    tokens = np.zeros((len(posts), text_length), dtype=np.int32)
    for row, (_, _, numbers) in zip(tokens, posts, strict=True):
        known = token_of[np.frombuffer(numbers, dtype=np.intc)]
        known = known[known != 0][:text_length]
        row[: len(known)] = known
    label_of = {group: label for label, group in enumerate(groups)}
    labels = torch.tensor([label_of[group] for group, _, _ in posts])
    share = TEST_MESSAGES / MESSAGES if len(posts) == MESSAGES else TEST_SHARE
    train, test = hold_out(labels, share, seed, by_class=False)
    inputs = torch.from_numpy(tokens)
    return DataSet(
        "news",
        *(inputs[train], labels[train], inputs[test], labels[test]),
        class_names=tuple(groups),
        embedding=embedding,
        train_rows=train,
        test_rows=test,
        row_names=np.array([f"{group}/{name}" for group, name, _ in posts], dtype=object),
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
        paths = sorted(path for path in source.glob("*/*") if path.is_file())
        for path, data in read_files(paths, _MAX_MESSAGE, _MAX_TEXT):
            yield path.parent.name, path.name, _decode(data)
        return
    limits = (_MAX_MESSAGE, _MAX_TEXT, 2 * _MAX_MESSAGES)
    for member, data in read_tar(source, lambda member: all(_group_and_name(member)), *limits):
        yield *_group_and_name(member), _decode(data)


def _group_and_name(path: str) -> tuple[str, str]:
    """The last two parts of a path in an archive; the name is empty for hidden files."""
    *_, group, name = ("", "", *path.split("/"))
    return group, "" if name.startswith(".") else name


def _decode(data: bytes) -> str:
    return data.decode("latin-1").replace("\r\n", "\n")
