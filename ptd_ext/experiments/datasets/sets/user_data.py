"""The user's data (.npz files, folders of images, tables) as a `DataSet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.data.read import kind_of, read_data
from ptd_ext.data.user_data import Part, UserData
from ptd_ext.engine.rows.columns import Columns, has_columns
from ptd_ext.engine.rows.image_files import CROP, ImageFiles
from ptd_ext.engine.rows.labels import encode_labels, join_ids
from ptd_ext.engine.rows.raw_rows import take_rows
from ptd_ext.engine.rows.split import hold_out
from ptd_ext.experiments.datasets.dataset import TEST_SHARE, DataSet
from ptd_ext.utils.ids import MAX_CLASSES


def load_user_data(
    root: Path | str | None,
    seed: int,
    *,
    kind: str,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    image_size: int = CROP,
) -> DataSet:
    """Read the user's data; without a test part, a random fifth of the rows becomes one.

    Labels are used as they are. If the data hold true labels, the test labels split off are those.

    Args:
        root: the file or folder.
        seed: seed of the split.
        kind: "npz", "image_folder" or "table".
        label: the column of the labels of a table.
        text: the column of text to learn from, instead of all others.
        columns: the columns to learn from, also if they look like ids; none for all.
        ignore: columns not to learn from.
        image_size: side of decoded images in pixels.
    """
    if root is None:
        raise ValueError(f"--data must name the file or folder of {kind}; got none.")
    if (found := kind_of(root)) != kind:
        raise ValueError(f"--data must be of the kind {kind}; {root} is of the kind {found}.")
    data = read_data(
        root,
        label=label,
        text=text,
        columns=columns,
        ignore=ignore,
        image_size=image_size,
        parts=True,
    )
    labels, names = _encoded_labels(data)
    y, clean = labels["y"], labels.get("y_clean")
    ids = join_ids([data.ids, *(part.ids for part in _parts(data).values())])
    if len(set(ids.tolist())) != len(ids):
        raise ValueError(f"the ids of {root} must be different from each other.")
    inputs, validation, clean_test, found_columns = data.X, None, False, None
    if data.test is not None:
        train, test_inputs = torch.arange(len(y)), data.test.X
        test_labels = test_given = labels["test"]
        test_rows = torch.arange(len(ids) - len(test_labels), len(ids))
    else:
        train, test = hold_out(y, TEST_SHARE, seed, by_class=False)
        inputs, test_inputs = (take_rows(data.X, rows.numpy()) for rows in (train, test))
        if has_columns(data.X):
            found_columns = Columns.fit(inputs, seed=seed, only=data.columns)
        test_rows, test_given, clean_test = test, y[test], clean is not None
        test_labels = (y if clean is None else clean)[test]
        y, clean = y[train], None if clean is None else clean[train]
    if data.validation is not None:
        files = (*data.ids.tolist(), *data.validation.ids.tolist())
        inputs = ImageFiles(data.X.root, files, data.X.size)
        validation = torch.arange(len(y), len(y) + len(labels["validation"]))
        y = torch.cat([y, labels["validation"]])
        train = torch.arange(len(y))
    return DataSet(
        kind,
        *(inputs, y, test_inputs, test_labels),
        class_names=names,
        noisy=clean is not None,
        clean_labels=clean,
        validation=validation,
        train_rows=train,
        test_rows=test_rows,
        test_given=test_given,
        row_names=None if _are_row_numbers(ids) or isinstance(inputs, ImageFiles) else ids,
        shown=data.shown,
        clean_test=clean_test,
        columns=found_columns,
        warnings=(
            *data.notes,
            *(() if found_columns is None else found_columns.summary()),
            *data.warnings,
        ),
    )


def _parts(data: UserData) -> dict[str, Part]:
    """The parts besides the first, in the order in which their rows are numbered."""
    parts = {"validation": data.validation, "test": data.test}
    return {name: part for name, part in parts.items() if part is not None}


def _encoded_labels(data: UserData) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Class indices of all parts, and the names of the classes."""
    given = {"y": data.y, **{name: part.y for name, part in _parts(data).items()}}
    if data.y_clean is not None:
        given["y_clean"] = data.y_clean
    classes: Sequence[Any] | None = data.classes
    if classes is None:
        values = [label for labels in given.values() for label in np.asarray(labels).tolist()]
        classes = encode_labels(values, name=f"the labels of {data.path}").classes.tolist()
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(
            f"{data.path} must have from 2 to {MAX_CLASSES:,} classes; it has {len(classes):,}."
        )
    found = {
        name: torch.from_numpy(encode_labels(labels, classes, f"{name} of {data.path}").codes)
        for name, labels in given.items()
    }
    return found, tuple(str(label) for label in classes)


def _are_row_numbers(ids: NDArray[Any]) -> bool:
    return ids.dtype.kind == "i" and np.array_equal(ids, np.arange(len(ids)))
