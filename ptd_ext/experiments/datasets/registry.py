"""The registry of data sets: one entry each, which settings, flags, docs and tests list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ptd_ext.engine.rows.image_files import CROP
from ptd_ext.experiments.datasets.dataset import DataSet
from ptd_ext.experiments.datasets.sets.cifar10 import load_cifar10
from ptd_ext.experiments.datasets.sets.clothing1m import load_clothing1m
from ptd_ext.experiments.datasets.sets.digits import load_digits
from ptd_ext.experiments.datasets.sets.human_labels import with_labels
from ptd_ext.experiments.datasets.sets.idx import load_fashion_mnist, load_mnist
from ptd_ext.experiments.datasets.sets.news import load_news
from ptd_ext.experiments.datasets.sets.svhn import load_svhn
from ptd_ext.experiments.datasets.sets.user_data import load_user_data

Layer = Mapping[str, Any]
_LABELS = ("labels_file", "human_labels")


@dataclass(frozen=True)
class DataSetEntry:
    """The entry of a data set.

    Attributes:
        load: reads the data set, of (root, seed) and the options.
        help: description for flags and docs.
        options: the settings that apply to this data set, passed to `load` by name if given.
        settings: settings under each preset.
        fast: settings under the preset "fast", besides `settings`.
        own_noise: whether its training labels are noisy from the start.
        ordered: whether its files have an order, so that a file of noisy labels can be given.
        user_data: whether it is the user's, so that schedule and network follow from its size.
        table_size: number of training samples in the paper's tables; 0 if `ptd-ext reproduce` has
            no table of it.
        modules: Python modules that reading it needs.
        has_files: whether it is read from files or folders.
    """

    load: Callable[..., DataSet]
    help: str
    options: tuple[str, ...] = ()
    settings: Layer = field(default_factory=dict)
    fast: Layer = field(default_factory=dict)
    own_noise: bool = False
    ordered: bool = False
    user_data: bool = False
    table_size: int = 0
    modules: tuple[str, ...] = ()
    has_files: bool = True

    @property
    def all_options(self) -> tuple[str, ...]:
        """The settings that apply to this data set."""
        return (*self.options, *(_LABELS if self.ordered else ()))

    def missing(self, root: Path | str | None = None) -> str:
        """The reason why the data set cannot be used now; "" if it can.

        Args:
            root: folder or file of the data; without it only modules are checked.
        """
        absent = [module for module in self.modules if find_spec(module) is None]
        if absent:
            return f'{", ".join(absent)} is not installed: pip install "ptd_ext[all]"'
        if root is not None and not Path(root).exists():
            return f"{root} does not exist"
        return ""


DATA_SETS: dict[str, DataSetEntry] = {
    "digits": DataSetEntry(
        lambda root, seed: load_digits(seed),
        "scikit-learn's 1,797 digits, 8 × 8 pixels; no files needed",
        settings={"network": "mlp"},
        fast={
            "epochs": 60,
            "milestones": (40, 50),
            "warm_up_epochs": 40,
            "revision_epochs": 20,
            "joint_epochs": 60,
            "joint_soft_from": 30,
            "joint_average": 10,
            "joint_final_epochs": 40,
            "ramp_epochs": 10,
            # Accuracy on 144 validation samples is too coarse to rank epochs; likelihood is not.
            "select": "likelihood",
        },
        table_size=1_437,
        modules=("sklearn",),
        has_files=False,
    ),
    "mnist": DataSetEntry(
        lambda root, seed: load_mnist(root),
        "handwritten digits, 28 × 28 pixels; idx files, plain or gzip",
        settings={"network": "lenet5", "n_parts": 10},
        ordered=True,
        table_size=60_000,
    ),
    "fashion_mnist": DataSetEntry(
        lambda root, seed: load_fashion_mnist(root),
        "pictures of clothes, 28 × 28 pixels; idx files, or Debian's dataset-fashion-mnist",
        settings={"network": "resnet18", "n_parts": 10},
        fast={"network": "lenet5"},
        ordered=True,
        table_size=60_000,
    ),
    "svhn": DataSetEntry(
        lambda root, seed: load_svhn(root),
        "house numbers, 32 × 32 pixels; train_32x32.mat and test_32x32.mat",
        settings={"network": "resnet34", "n_parts": 10},
        ordered=True,
        table_size=73_257,
    ),
    "cifar10": DataSetEntry(
        lambda root, seed: load_cifar10(root),
        "CIFAR-10, 32 × 32 pixels; python version, also as archive, or binary version",
        settings={"network": "resnet34", "n_parts": 20, "disagreement_start": 20},
        fast={"disagreement_start": 0},
        ordered=True,
        table_size=50_000,
    ),
    "news": DataSetEntry(
        load_news,
        "20 Newsgroups as word vectors; folders of messages, or an archive of them",
        options=("word_vectors", "text_length", "text_headers"),
        settings={"network": "news_conv", "n_parts": 10},
        table_size=13_997,
    ),
    "clothing1m": DataSetEntry(
        lambda root, seed, image_size=CROP: load_clothing1m(root, image_size),
        "a million images from shops with noisy labels; images and lists of labels",
        options=("image_size",),
        settings={
            "network": "resnet50",
            "noise": "none",
            "batch_size": 32,
            "lr": 1e-3,
            "weight_decay": 1e-3,
            "epochs": 10,
            "milestones": (5,),
            "warm_up_epochs": 5,
            "joint_epochs": 10,
            "joint_soft_from": 4,
            "joint_average": 5,
            "joint_final_epochs": 10,
            "dmi_epochs": 10,
        },
        own_noise=True,
        table_size=1_000_000,
        modules=("PIL",),
    ),
    # Labels of user data stay as they are.
    "npz": DataSetEntry(
        partial(load_user_data, kind="npz"),
        "your arrays: x and y in a .npz file, or a .npy file of each",
        options=("label",),
        settings={"network": "mlp", "noise": "none", "validation_fraction": 0.0},
        user_data=True,
    ),
    "image_folder": DataSetEntry(
        partial(load_user_data, kind="image_folder"),
        "your images, in a folder for each class",
        options=("image_size",),
        settings={"network": "lenet5", "noise": "none", "validation_fraction": 0.0},
        user_data=True,
        modules=("PIL",),
    ),
    "table": DataSetEntry(
        partial(load_user_data, kind="table"),
        "your .csv, .tsv or .parquet file; --label names the column of the labels",
        options=("label", "text", "columns", "ignore"),
        settings={"network": "mlp", "noise": "none", "validation_fraction": 0.0},
        user_data=True,
        modules=("pandas",),
    ),
}


def check_name(name: str) -> None:
    """Raise ValueError unless there is a data set of this name."""
    if name not in DATA_SETS:
        raise ValueError(f"dataset must be one of {', '.join(DATA_SETS)}; got {name!r}.")


def check_root(name: str, root: Path | str | None) -> None:
    """Raise ValueError for files that the data set would not be read from."""
    if root and not DATA_SETS[name].has_files:
        raise ValueError(
            f"data does not apply to {name}, which has no files; got {str(root)!r}. Leave "
            "--dataset out to train on your data."
        )


def options() -> tuple[str, ...]:
    """The settings that apply to some data sets only."""
    return tuple(dict.fromkeys(name for each in DATA_SETS.values() for name in each.all_options))


def load(name: str, root: Path | str | None = None, *, seed: int = 0, **given: Any) -> DataSet:
    """Read a data set.

    Args:
        name: one of `DATA_SETS`.
        root: the folder with the data set's files, or one that contains that folder; the file or
            folder of user data. `fashion_mnist` is also found where Debian's package installs it.
        seed: seed of the split, for data without a test part.
        given: options of the data set by name; those that are None or empty count as not given.
    """
    check_name(name)
    entry = DATA_SETS[name]
    check_root(name, root)
    given = {option: value for option, value in given.items() if value}
    for option, value in given.items():
        if option not in entry.all_options:
            raise ValueError(f"{option} does not apply to {name}; got {value!r}.")
    labels_file, human_labels = (given.pop(option, None) for option in _LABELS)
    if human_labels is not None and labels_file is None:
        raise ValueError(
            f"human_labels must come with labels_file, the file of {human_labels!r}; got none."
        )
    data = entry.load(root, seed, **given)
    return data if labels_file is None else with_labels(data, labels_file, human_labels)
