"""The settings of an experiment: those of training, and the data, noise and preset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ptd_ext.engine.rows.image_files import MAX_SIZE
from ptd_ext.engine.settings.setting import setting
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.experiments.datasets.registry import DATA_SETS
from ptd_ext.noise.kinds import KINDS, check_kind

_data, _method = partial(setting, "data"), partial(setting, "method")


@dataclass(frozen=True)
class ExperimentSettings(Settings):
    """The settings of one experiment, with the names that flags and configuration files use."""

    rate: float = _data(
        0.4, "share of training labels that the noise makes wrong", minimum=0, below=1
    )
    dataset: str = _data("digits", "name of the data set", names=lambda: DATA_SETS)
    data: str = _data("", "folder or file of the data set")
    data_limit: int = _data(0, "maximum number of training samples; 0: no limit", minimum=0)
    noise: str = _data(
        "instance",
        "kind of noise added to the training labels; none keeps them as they are",
        names=lambda: (*KINDS, "none"),
        rule=check_kind,
    )
    noise_input: str = _data(
        "raw", "values that instance noise depends on", ("raw", "standardised")
    )
    noise_file: str = _data("", "file of `ptd-ext noise` with the noisy labels")
    labels_file: str = _data(
        "", "file of human noisy labels: CIFAR-10N's CIFAR-10_human.pt, .npy or .npz"
    )
    human_labels: str = _data(
        "", "label set in labels_file: aggre_label, worse_label, random_label1, …"
    )
    image_size: int = _data(
        0,
        "image side in pixels; 0: 224, or 32 for image_folder without network_weights",
        minimum=0,
        maximum=MAX_SIZE,
    )
    word_vectors: str = _data(
        "", "news: GloVe text file, or .npy file with a .words file beside it"
    )
    text_length: int = _data(0, "news: words per message; 0: 1000", minimum=0)
    text_headers: str = _data("", "news: strip, subject or keep header lines")
    label: str = _data(
        "", "column of the labels of a table; for a .npy file of rows, the .npy file of the labels"
    )
    text: str = _data("", "table: text column to learn from, instead of all others")
    columns: tuple[str, ...] = _data(
        (), "table: columns to learn from (default: all but ids and constants)"
    )
    ignore: tuple[str, ...] = _data((), "table: columns not to learn from")
    test_labels: str = _data(
        "auto",
        "kind of test labels: clean, or given like the training labels; auto: clean, except for "
        "your data without y_clean and without added noise",
        ("auto", "clean", "given"),
    )
    validation_fraction: float = _data(
        0.1,
        "held-out share of the training set; 0: 0.1, more for small data sets",
        minimum=0,
        below=1,
    )
    against: str = _method("", "second method to train on the same data, to compare")
    preset: str = _method(
        "fast",
        "paper: networks and schedules of the paper; fast: minutes on a CPU",
        ("paper", "fast"),
    )

    def for_training(self, rate: float | None) -> Settings:
        """The settings for the engine.

        Args:
            rate: the noise rate; None if it is unknown.
        """
        shared = {name: getattr(self, name) for name in Settings.entries()}
        return Settings(**{**shared, "rate": -1.0 if rate is None else rate})
