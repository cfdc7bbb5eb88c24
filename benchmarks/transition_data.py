"""Data for the comparison of estimators: raw inputs, and frozen features that use no labels."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.experiments import datasets as data

COMPONENTS = 64
FEATURE_SAMPLES = 20_000  # samples of a data set, if networks train on features


@dataclass(frozen=True)
class Samples:
    """Raw inputs for the noise, features for the networks, and labels."""

    raw: Tensor
    features: Tensor
    labels: Tensor
    test_raw: Tensor
    test_features: Tensor
    test_labels: Tensor
    classes: int
    noisy: Tensor | None = None  # real noisy labels
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    counts: Any = None  # sparse TF-IDF of texts
    test_counts: Any = None

    def subset(self, rows: Tensor) -> Samples:
        """Keep only these training samples."""
        noisy = None if self.noisy is None else self.noisy[rows]
        raw, features, labels = self.raw[rows], self.features[rows], self.labels[rows]
        return replace(self, raw=raw, features=features, labels=labels, noisy=noisy)


def load(name: str, folder: Path | None, *, whole: bool = False) -> Samples:
    """Load a data set by name.

    Args:
        name: fashion_mnist, mnist, svhn, cifar10, news or hausa.
        folder: contains a sub-folder for each data set.
        whole: load all samples as images, instead of the first ones with features.
    """
    if name == "news":
        return _news(folder)
    if name == "hausa":
        return _hausa(folder)
    found = data.load(name, None if name == "fashion_mnist" else folder, seed=0)
    count = len(found.train_labels) if whole else FEATURE_SAMPLES
    raw, test = found.train_inputs[:count], found.test_inputs
    features, test_features = raw[:, :0], test[:, :0]
    if not whole:
        rich = name in ("svhn", "cifar10")
        pair = (_patch_features(raw, test)) if rich else (raw.flatten(1), test.flatten(1))
        features, test_features = principal(*pair)
    fitted, labels = Preprocessing.fit(found.train_inputs)[0], found.train_labels[:count]
    statistics = [tuple((each / 255).tolist()) for each in (fitted.mean, fitted.scale)]
    return Samples(
        raw, features, labels, test, test_features, found.test_labels, found.n_classes, None,
        *statistics,
    )  # fmt: skip


def long_tail(samples: Samples, ratio: float, seed: int) -> Samples:
    """Keep shares of the classes that fall from 1 to 1/ratio, in random order."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.randperm(samples.classes, generator=generator)
    shares = ratio ** -(place.double() / (samples.classes - 1))
    kept = torch.rand(len(samples.labels), generator=generator) < shares[samples.labels]
    return samples.subset(kept.nonzero()[:, 0])


def principal(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """The first principal components, divided by their common standard deviation."""
    train, test = train.float(), test.float()
    mean = train.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov(train.double().T))
    directions = vectors[:, -COMPONENTS:].flip(1).float()
    scale = values[-COMPONENTS:].mean().sqrt().float()
    return tuple((x - mean) @ directions / scale for x in (train, test))


def _patch_features(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Whitened patches of the training images as filters, rectified and pooled to 3 × 3."""
    generator = torch.Generator().manual_seed(0)
    size, filters = 6, 256
    images = train.float()
    images = (images - images.mean((1, 2, 3), keepdim=True)) / images.std((1, 2, 3), keepdim=True)
    patches = F.unfold(images[:500], size, stride=3).transpose(1, 2).flatten(0, 1)
    centred = patches - patches.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov(centred.T))
    whiten = vectors @ torch.diag((values + 0.1).rsqrt()) @ vectors.T
    chosen = centred[torch.randperm(len(centred), generator=generator)[:filters]] @ whiten
    bank = (F.normalize(chosen) @ whiten).view(filters, -1, size, size)
    offset = -(bank.flatten(1) @ patches.mean(0))

    def features(x: Tensor) -> Tensor:
        x = x.float()
        x = (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True)
        rows = []
        for block in x.split(250):
            found = F.conv2d(block, bank, offset)
            both = torch.cat([F.relu(found - 0.5), F.relu(-found - 0.5)], 1)
            rows.append(F.adaptive_avg_pool2d(both, 3).flatten(1).sqrt())
        return torch.cat(rows)

    return features(train), features(test)


def _news(folder: Path) -> Samples:
    (path,) = (folder / "news20").glob("*.tar.*")
    found = []
    with tarfile.open(path) as archive:
        for (
            member
        ) in archive:  # in the order of the archive: seeking back would decompress it again
            if member.isfile():
                text = archive.extractfile(member).read().decode("latin-1")
                body = text.partition("\n\n")[2]  # without the header, which names the group
                found.append((member.name, Path(member.name).parent.name, body))
    found.sort()
    names = {group: number for number, group in enumerate(sorted({row[1] for row in found}))}
    labels, texts = [names[group] for _, group, _ in found], [body for *_, body in found]
    return _texts(texts, torch.tensor(labels), len(names), test_share=0.3)


def _hausa(folder: Path) -> Samples:
    found = []
    for kind in ("clean", "noisy"):
        text = (folder / "hausa_topics" / f"{kind}.tsv").read_text(encoding="utf-8")
        found.append(dict(line.split("\t")[-2:] for line in text.splitlines()[1:]))
    clean, noisy = found
    texts = [text for text in clean if text in noisy]
    names = {name: n for n, name in enumerate(sorted(set(clean.values()) | set(noisy.values())))}
    labels = torch.tensor([names[clean[text]] for text in texts])
    wrong = torch.tensor([names[noisy[text]] for text in texts])
    return _texts(texts, labels, len(names), test_share=0.2, noisy=wrong)


def _texts(
    texts: list[str],
    labels: Tensor,
    classes: int,
    *,
    test_share: float,
    noisy: Tensor | None = None,
) -> Samples:
    """TF-IDF and its leading singular vectors."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(texts), generator=generator)
    held_out = round(test_share * len(texts))
    test, train = order[:held_out], order[held_out:]
    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.5, max_features=30_000)
    counts = vectors.fit_transform([texts[n] for n in train.tolist()])
    reduce = TruncatedSVD(100, random_state=0)
    features = torch.tensor(reduce.fit_transform(counts)).float()
    test_counts = vectors.transform([texts[n] for n in test.tolist()])
    test_features = torch.tensor(reduce.transform(test_counts)).float()
    features, test_features = F.normalize(features), F.normalize(test_features)
    features, test_features = features * 10, test_features * 10  # entries of order one
    mine = None if noisy is None else noisy[train]
    return Samples(
        features, features, labels[train], test_features, test_features, labels[test], classes,
        mine, counts=counts, test_counts=test_counts,
    )  # fmt: skip
