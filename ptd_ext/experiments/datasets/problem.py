"""The data of an experiment: labels to train on, a validation split of them, a test set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise, symmetric_noise
from ptd_ext.noise.labels import LabelNoise, load_noise
from ptd_ext.train import data
from ptd_ext.train.config.own_data import validation_share
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.data.caller_rows import CallerRows
from ptd_ext.train.data.column_scale import ColumnScale
from ptd_ext.train.data.inputs import Inputs, Scale, sample_shape

__all__ = ["Inputs", "Problem", "Scale", "load_data", "load_problem", "make_noise"]

_NOISES = {"symmetric": symmetric_noise, "pairwise": pairwise_noise}


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
    train_labels: Tensor  # int64; known to be noisy if `noisy`
    validation_labels: Tensor  # likewise
    test_labels: Tensor  # clean if `clean_test`
    train_clean: Tensor | None  # where known
    train_rows: Tensor | None  # [N, C], the rows that the noisy labels were drawn from
    realised_rate: float | None
    sample_shape: torch.Size
    embedding: Tensor | None
    asked_rate: float | None  # None for noise that was not made by asking for a rate
    noisy: bool = True  # whether training and validation labels are known to be noisy
    clean_test: bool = True  # whether the test labels are known to be clean
    caller_rows: CallerRows | None = None  # None: positions in the training samples
    column_scale: ColumnScale | None = None  # by which rows were standardised

    @property
    def rows(self) -> CallerRows:
        """The rows of the user's data whose labels are judged."""
        if self.caller_rows is not None:
            return self.caller_rows
        count = torch.arange(self.train_size + len(self.validation_labels))
        return CallerRows(count[: self.train_size], count[self.train_size :])

    @property
    def validation_name(self) -> str:
        """The name of the validation split in messages."""
        return "noisy validation" if self.noisy else "given-label validation"

    @property
    def test_name(self) -> str:
        """The name of the test split in messages."""
        return "clean test" if self.clean_test else "given-label test"

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
    share = settings.validation or validation_share(count)
    held = max(1, round(share * count))
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
    columns = _column_scale(dataset)
    clean_test = settings.test_labels == "clean" or (
        settings.test_labels == "auto" and (dataset.clean_test or noise is not None)
    )
    whole = None if clean is None else (labels != clean).double().mean().item()
    return Problem(
        name=dataset.name,
        classes=dataset.classes,
        class_names=dataset.class_names,
        train=_scaled(Inputs(dataset.train_inputs, train, scale), columns),
        validation=_scaled(Inputs(dataset.train_inputs, held_out, scale), columns),
        test=_scaled(Inputs(dataset.test_inputs, None, scale), columns),
        train_ids=train,
        train_labels=labels[train],
        validation_labels=labels[held_out],
        test_labels=dataset.test_labels,
        train_clean=None if clean is None else clean[train],
        train_rows=None if noise is None else noise.rows[train].float(),
        realised_rate=whole,
        sample_shape=sample_shape(dataset.test_inputs),
        embedding=dataset.embedding,
        asked_rate=None if noise is None or settings.noise_file else settings.rate,
        noisy=noise is not None or dataset.noisy,
        clean_test=clean_test,
        caller_rows=_caller_rows(dataset, train, held_out, noise is None, clean_test),
        column_scale=columns,
    )


def _column_scale(dataset: data.DataSet) -> ColumnScale | None:
    """The scale of rows of numbers; None for images and tokens."""
    rows = dataset.train_inputs
    if not isinstance(rows, Tensor) or rows.dim() != 2 or dataset.embedding is not None:
        return None
    return ColumnScale.fit(rows)


def _scaled(inputs: Inputs, columns: ColumnScale | None) -> Inputs:
    """Standardised once here, and not at every fetch."""
    return inputs if columns is None else Inputs(columns(inputs.stored), None, inputs.scale)


def _caller_rows(
    dataset: data.DataSet, train: Tensor, held_out: Tensor, labels_as_given: bool, clean_test: bool
) -> CallerRows:
    """The rows to judge: of the test part only labels that came with the data and may be wrong."""
    rows = dataset.train_rows
    judged = (
        labels_as_given
        and dataset.test_given is not None
        # Clean labels are not judged, only labels that came beside clean ones, or alone.
        and (dataset.clean_test or not clean_test)
    )
    return CallerRows(
        train if rows is None else rows[train],
        held_out if rows is None else rows[held_out],
        dataset.test_rows if judged else None,
        dataset.test_given if judged else None,
        dataset.row_names,
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
