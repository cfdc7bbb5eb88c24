"""The data of an experiment: noisy training labels, a noisy validation split, a clean test set."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise, symmetric_noise
from ptd_ext.noise.labels import LabelNoise, load_noise
from ptd_ext.train import data
from ptd_ext.train.config.settings import Settings

__all__ = ["Inputs", "Problem", "load_data", "load_problem", "make_noise"]

_FILES_LOOKED_AT = 300  # per split, since reading a million takes as long as an epoch
_NOISES = {"symmetric": symmetric_noise, "pairwise": pairwise_noise}


class Inputs:
    """Samples of one split, fetched by position: normalised, on the device.

    Images stay uint8 until they are fetched, which takes a quarter of the memory of float32. If the
    whole split fits on the device it is kept there, and a batch is a gather without a host copy.
    """

    def __init__(self, stored: Any, positions: Tensor | None, scale: Scale) -> None:
        if isinstance(stored, Tensor) and positions is not None:
            stored, positions = stored[positions], None
        self.stored, self.positions, self.scale = stored, positions, scale

    def __len__(self) -> int:
        return len(self.stored) if self.positions is None else len(self.positions)

    def to(self, device: torch.device) -> Inputs:
        """Return a copy with the samples on a device, unless they are files."""
        stored = self.stored.to(device) if isinstance(self.stored, Tensor) else self.stored
        return Inputs(stored, self.positions, self.scale)

    @property
    def device(self) -> torch.device:
        """The device that ids must be on for a fetch without a host sync."""
        return self.stored.device if isinstance(self.stored, Tensor) else torch.device("cpu")

    @functools.cached_property
    def sample_numbers(self) -> int:
        """How many numbers one sample has."""
        return _sample_shape(self.stored).numel()

    @property
    def slow(self) -> bool:
        """True if a fetch reads files, which is worth prefetching."""
        return not isinstance(self.stored, Tensor)

    def add_to(self, found: Any) -> None:
        """Add all samples to a checksum; if they are many files, only some, evenly spaced."""
        found.update(repr((self.scale.mean, self.scale.std)).encode())
        if isinstance(self.stored, Tensor):
            stored = self.stored.cpu().contiguous()
            found.update(f"{stored.dtype} {list(stored.shape)}".encode())
            found.update(stored.view(-1).view(torch.uint8).numpy().data)
            return
        count = min(len(self), _FILES_LOOKED_AT)
        few = torch.linspace(0, len(self) - 1, count, dtype=torch.float64).long()
        for position in (few if self.positions is None else self.positions[few]).tolist():
            name = self.stored.name(position)
            contents = (self.stored.root / name).read_bytes()
            found.update(f"{name} {len(contents)}/".encode() + contents)

    def fetch(self, ids: Tensor, device: torch.device) -> Tensor:
        """The samples at `ids`, as the network takes them."""
        ids = ids.to(self.device)
        if isinstance(self.stored, Tensor):
            rows = self.stored.index_select(0, ids)
        else:
            rows = self.stored[ids if self.positions is None else self.positions[ids]]
        if device.type == "cuda" and rows.device.type == "cpu":
            rows = rows.pin_memory()
        return self.scale(rows.to(device, non_blocking=True))


@dataclass(frozen=True)
class Scale:
    """Normalises uint8 images to mean 0 and deviation 1 per channel; keeps other samples."""

    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    channels_last: bool

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() != 4:
            return rows.float() if rows.dtype == torch.uint8 else rows
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        whole = rows.dtype == torch.uint8
        rows = rows.to(torch.float32, memory_format=layout)
        if self.mean is None or self.std is None:
            return rows
        unit = 255.0 if whole else 1.0
        if len(self.mean) == 1:
            return rows.sub_(unit * self.mean[0]).mul_(1 / (unit * self.std[0]))
        mean = _by_channel(self.mean, unit, rows.device)
        return rows.sub_(mean).div_(_by_channel(self.std, unit, rows.device))


@functools.lru_cache(maxsize=32)
def _by_channel(values: tuple[float, ...], unit: float, device: torch.device) -> Tensor:
    """[1, channels, 1, 1], copied to the device once and not at every step."""
    return (unit * torch.tensor(values)).view(1, -1, 1, 1).to(device)


@dataclass
class Problem:
    """The data to train, validate and test on. Indices into `train` are the ids of samples."""

    name: str
    classes: int
    class_names: tuple[str, ...]
    train: Inputs
    validation: Inputs
    test: Inputs
    train_ids: Tensor  # positions of the training samples in the data set
    train_labels: Tensor  # noisy, int64
    validation_labels: Tensor  # noisy
    test_labels: Tensor  # clean
    train_clean: Tensor | None  # where known
    train_rows: Tensor | None  # [N, C], the rows that the noisy labels were drawn from
    realised_rate: float | None
    sample_shape: torch.Size
    embedding: Tensor | None
    asked_rate: float | None  # None for noise that was not made by asking for a rate

    @property
    def train_size(self) -> int:
        """The number of training samples, N."""
        return len(self.train_labels)

    def to(self, device: torch.device, resident: bool) -> Problem:
        """Return a copy with the labels, and if `resident` the samples, on a device."""
        moved = {
            name: value.to(device)
            for name, value in vars(self).items()
            if name != "embedding"
            and (isinstance(value, Tensor) or (resident and isinstance(value, Inputs)))
        }
        return Problem(**{**vars(self), **moved})

    def fingerprint(self) -> str:
        """A hash of all labels and samples; only some samples are read if they are image files."""
        found = hashlib.sha256(repr((self.name, self.classes, tuple(self.sample_shape))).encode())
        for labels in (self.train_labels, self.validation_labels, self.test_labels):
            found.update(labels.cpu().numpy().tobytes() + b"/")
        for inputs in (self.train, self.validation, self.test):
            inputs.add_to(found)
        if self.embedding is not None:
            found.update(self.embedding.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()[:16]

    def bytes(self) -> int:
        """The size of all samples that are held in memory."""
        stored = (inputs.stored for inputs in (self.train, self.validation, self.test))
        return sum(t.numel() * t.element_size() for t in stored if isinstance(t, Tensor))


def load_problem(settings: Settings) -> Problem:
    """Read the data set, make its labels noisy and hold out a part of them."""
    dataset = load_data(settings)
    count = len(dataset.train_labels)
    if settings.data_limit:
        count = min(count, settings.data_limit)
    noise = make_noise(dataset, settings) if _is_clean(dataset, settings) else None
    labels = dataset.train_labels if noise is None else noise.noisy_labels
    # The rate of noise that was not made here is not known.
    clean = dataset.clean_labels if noise is None else dataset.train_labels

    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(labels), generator=generator)[:count]
    held = max(1, round(settings.validation * count))
    if dataset.validation is not None:
        held_out, train = dataset.validation, order[~torch.isin(order, dataset.validation)]
    else:
        # Sorted, so that samples that are neighbours on the disk stay neighbours.
        held_out, train = order[:held].sort().values, order[held:].sort().values
    for name, count in (("train", len(train) - 1), ("validate", len(held_out))):
        if count < 1:
            raise ValueError(
                f"{dataset.name} leaves too few samples to {name} on: {len(train)} and "
                f"{len(held_out)} of {len(order)}."
            )
    scale = Scale(dataset.mean, dataset.std, settings.channels_last)
    whole = None if clean is None else (labels != clean).double().mean().item()
    return Problem(
        name=dataset.name,
        classes=dataset.classes,
        class_names=dataset.class_names,
        train=Inputs(dataset.train_inputs, train, scale),
        validation=Inputs(dataset.train_inputs, held_out, scale),
        test=Inputs(dataset.test_inputs, None, scale),
        train_ids=train,
        train_labels=labels[train],
        validation_labels=labels[held_out],
        test_labels=dataset.test_labels,
        train_clean=None if clean is None else clean[train],
        train_rows=None if noise is None else noise.rows[train].float(),
        realised_rate=whole,
        sample_shape=_sample_shape(dataset.test_inputs),
        embedding=dataset.embedding,
        asked_rate=None if noise is None or settings.noise_file else settings.rate,
    )


def load_data(settings: Settings) -> data.DataSet:
    """The data set that the settings name."""
    return data.load(
        settings.dataset,
        settings.data or None,
        seed=settings.seed,
        labels=settings.labels_file or None,
        human_labels=settings.human_labels or None,
        size=settings.image_size or None,
        vectors=settings.word_vectors or None,
        length=settings.text_length or None,
        headers=settings.text_headers or None,
    )


def _is_clean(dataset: data.DataSet, settings: Settings) -> bool:
    """True if noise is to be put on the labels."""
    asked = settings.noise != "none" or settings.noise_file != ""
    if dataset.noisy and asked and settings.noise_file:
        raise ValueError("noise_file must not be given for labels that are noisy already.")
    return asked and not dataset.noisy


def make_noise(dataset: data.DataSet, settings: Settings) -> LabelNoise:
    """The noise that the settings ask for, or that of a file, checked against the data."""
    labels = dataset.train_labels
    if settings.noise_file:
        noise = load_noise(settings.noise_file)
        if not torch.equal(noise.labels, labels) or noise.classes != dataset.classes:
            raise ValueError(
                f"{settings.noise_file} does not belong to these data: its {len(noise.labels)} "
                f"clean labels are not the {len(labels)} of {dataset.name}."
            )
        return noise
    if settings.noise != "instance":
        make = _NOISES[settings.noise]
        return make(labels, settings.rate, seed=settings.seed, classes=dataset.classes)
    return instance_dependent_noise(
        dataset.noise_features(),
        labels,
        settings.rate,
        seed=settings.seed,
        classes=dataset.classes,
        inputs=cast(Any, settings.noise_input),
    )


def _sample_shape(inputs: Any) -> torch.Size:
    if isinstance(inputs, Tensor):
        return inputs.shape[1:]
    return inputs[torch.zeros(1, dtype=torch.int64)].shape[1:]
