"""Data sets, read from their official files; nothing is downloaded and nothing unpacked to disk."""

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.experiments.datasets.dataset import DataSet
from ptd_ext.experiments.datasets.locate import MissingFileError
from ptd_ext.experiments.datasets.registry import DATA_SETS, DataSetEntry, load, options

__all__ = [
    "DATA_SETS",
    "DataSet",
    "DataSetEntry",
    "ImageFiles",
    "MissingFileError",
    "load",
    "options",
]
