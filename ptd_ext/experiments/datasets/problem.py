"""The data of an experiment: labels to train on, and what only the experiment knows of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import IMAGENET, Preprocessing
from ptd_ext.engine.rows.split import hold_out, split_data
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.stage.evaluate import accuracy
from ptd_ext.engine.stage.observer import Observer
from ptd_ext.experiments import datasets
from ptd_ext.experiments.datasets.source_rows import SourceRows
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.noise.kinds import KINDS
from ptd_ext.noise.labels import LabelNoise

_MAX_RATE = 0.99  # below 1, as the settings ask


@dataclass(frozen=True)
class Problem:
    """The data of an experiment.

    Attributes:
        name: the name of the data set.
        data: the rows and labels that training sees.
        test: the test samples.
        test_labels: their labels, clean if `clean_test`.
        train_clean: clean labels of the training samples, where they are known.
        noise_rows: the rows of T(x) that noisy labels were drawn from, [N, C], where they are
            known.
        realised_rate: the share of wrong labels, where it is known.
        asked_rate: the noise rate asked for; None for noise that was not made here.
        noisy: whether training and validation labels are known to be noisy.
        clean_test: whether the test labels are known to be clean.
        source: the rows to judge, as they are in the file or folder they came from.
        is_user_data: true for data that are not one of the published data sets.
        warnings: messages on how user data were read.
    """

    name: str
    data: TrainingData
    test: Inputs
    test_labels: Tensor
    train_clean: Tensor | None
    noise_rows: Tensor | None
    realised_rate: float | None
    asked_rate: float | None
    noisy: bool
    clean_test: bool
    source: SourceRows
    is_user_data: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def validation_name(self) -> str:
        """The name of the validation split in messages."""
        return "noisy validation" if self.noisy else "given-label validation"

    @property
    def test_name(self) -> str:
        """The name of the test split in messages."""
        return "clean test" if self.clean_test else "given-label test"

    @property
    def known_rate(self) -> float | None:
        """The noise rate that methods may use: the one asked for, or the true one, if known."""
        if self.asked_rate is not None or self.realised_rate is None:
            return self.asked_rate
        return min(self.realised_rate, _MAX_RATE)

    def fingerprint(self) -> str:
        """A hash of all labels and samples, the test part included."""
        found = hashlib.sha256(f"{self.name} {self.data.fingerprint()}".encode())
        found.update(self.test_labels.cpu().numpy().tobytes())
        self.test.add_to(found)
        return found.hexdigest()[:16]


class CleanReference(Observer):
    """Reports the accuracy on the test set, and that of anchors where clean labels are known."""

    def __init__(self, problem: Problem) -> None:
        self.test, self.test_labels = problem.test, problem.test_labels
        self.train_clean = problem.train_clean

    def to(self, device: torch.device, resident: bool) -> None:
        """Move the labels, and if `resident` the test samples."""
        self.test = self.test.to(device) if resident else self.test
        self.test_labels = self.test_labels.to(device)
        if self.train_clean is not None:
            self.train_clean = self.train_clean.to(device)

    def figures(self, logits_of: Callable[[Inputs], Tensor]) -> dict[str, float]:
        """The test accuracy, in per cent."""
        return {"test_accuracy": accuracy(logits_of(self.test), self.test_labels)}

    def anchor_accuracy(self, ids: Sequence[Tensor]) -> float | None:
        """The share of anchors that belong to their class, averaged over the classes."""
        if self.train_clean is None:
            return None
        right = [
            (self.train_clean[mine] == label).double().mean().item()
            for label, mine in enumerate(ids)
        ]
        return sum(right) / len(right)


def load_problem(settings: ExperimentSettings) -> Problem:
    """Read the data set, make its labels noisy and hold out a part of them."""
    dataset = load_data(settings)
    noise = make_noise(dataset, settings) if _is_clean(dataset, settings) else None
    labels = dataset.train_labels if noise is None else noise.noisy_labels
    # The rate of noise that was not made here is not known.
    clean = dataset.clean_labels if noise is None else dataset.train_labels
    own = dataset.test_given is not None
    train, held_out = hold_out(
        labels,
        settings.validation_fraction or None,
        settings.seed,
        by_class=own and not settings.data_limit,
        limit=settings.data_limit or None,
    )
    if dataset.validation is not None:
        both = torch.cat([train, held_out]).sort().values
        train, held_out = both[~torch.isin(both, dataset.validation)], dataset.validation
    if len(train) < 2 or not len(held_out):
        raise ValueError(
            f"{dataset.name} leaves too few samples to train or to validate on: {len(train)} and "
            f"{len(held_out)} of {len(labels)}. Give more rows, or another validation_fraction."
        )
    pretrained = own and settings.network_weights and dataset.as_bytes
    preprocessing, stored = Preprocessing.fit(
        dataset.train_inputs,
        settings.seed,
        columns=dataset.columns,
        words=None if dataset.embedding is None else len(dataset.embedding),
        # Weights of ImageNet expect images that are standardised as for their training.
        moments=IMAGENET if pretrained and dataset.sample_shape[0] == 3 else dataset.moments,
    )
    data = split_data(
        stored,
        labels,
        dataset.class_names,
        preprocessing,
        (train, held_out),
        channels_last=settings.channels_last,
        embedding=dataset.embedding,
    )
    test_stored = preprocessing.store(dataset.test_inputs)
    test = Inputs(test_stored, None, preprocessing, channels_last=settings.channels_last)
    clean_test = settings.test_labels == "clean" or (
        settings.test_labels == "auto" and (dataset.clean_test or noise is not None)
    )
    return Problem(
        name=dataset.name,
        data=data,
        test=test,
        test_labels=dataset.test_labels,
        train_clean=None if clean is None else clean[train],
        noise_rows=None if noise is None else noise.rows[train].float(),
        realised_rate=None if clean is None else (labels != clean).double().mean().item(),
        asked_rate=None if noise is None or settings.noise_file else settings.rate,
        noisy=noise is not None or dataset.noisy,
        clean_test=clean_test,
        source=_source(dataset, data, (train, held_out), test, noise is None, clean_test),
        is_user_data=own,
        warnings=dataset.warnings,
    )


def _source(
    dataset: datasets.DataSet,
    data: TrainingData,
    positions: tuple[Tensor, Tensor],
    test: Inputs,
    labels_as_given: bool,
    clean_test: bool,
) -> SourceRows:
    """The rows to judge: of the test part only labels that came with the data and may be wrong."""
    numbers = dataset.train_rows
    rows = positions if numbers is None else tuple(numbers[where] for where in positions)
    inputs: tuple[Inputs, ...] = (data.train, data.validation)
    labels: tuple[Tensor, ...] = (data.train_labels, data.validation_labels)
    # Clean labels are not judged, only labels that came beside clean ones, or alone.
    judged = labels_as_given and (dataset.clean_test or not clean_test)
    if judged and dataset.test_given is not None and dataset.test_rows is not None:
        inputs, labels = (*inputs, test), (*labels, dataset.test_given)
        rows = (*rows, dataset.test_rows)
    return SourceRows(inputs, labels, rows, dataset.row_names, dataset.shown)


def load_data(settings: ExperimentSettings) -> datasets.DataSet:
    """The data set that the settings name."""
    given = {name: getattr(settings, name) for name in datasets.options()}
    return datasets.load(settings.dataset, settings.data or None, seed=settings.seed, **given)


def _is_clean(dataset: datasets.DataSet, settings: ExperimentSettings) -> bool:
    """True if noise is to be put on the labels."""
    asked = settings.noise != "none" or settings.noise_file != ""
    if dataset.noisy and asked and settings.noise_file:
        raise ValueError("noise_file must not be given for labels that are noisy already.")
    return asked and not dataset.noisy


def make_noise(dataset: datasets.DataSet, settings: ExperimentSettings) -> LabelNoise:
    """The noise that the settings ask for, or that of a file, checked against the data."""
    labels = dataset.train_labels
    if settings.noise_file:
        noise = LabelNoise.load(settings.noise_file)
        if not torch.equal(noise.labels, labels) or noise.n_classes != dataset.n_classes:
            raise ValueError(
                f"{settings.noise_file} does not belong to these data: its {len(noise.labels)} "
                f"clean labels are not the {len(labels)} of {dataset.name}."
            )
        return noise
    return KINDS[settings.noise].apply(
        dataset.noise_features,
        labels,
        settings.rate,
        n_classes=dataset.n_classes,
        random_state=settings.seed,
        settings=settings,
    )
