"""The user's images, in folders named after their classes."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ptd_ext.train.data.dataset import MAX_CLASSES, DataSet
from ptd_ext.train.data.image_files import CROP, ImageFiles
from ptd_ext.train.data.sets.clothing1m import IMAGENET_MEAN, IMAGENET_STD
from ptd_ext.train.data.split import TEST_SHARE, split

__all__ = ["list_images", "load_image_folder"]

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def load_image_folder(root: Path | str | None, seed: int, size: int | None) -> DataSet:
    """`root/train/<class>/…` and `root/test/<class>/…`; sub-folders of a class belong to it.

    Without `test` the folder `val` is the test part; with both, `val` is the validation part. A
    root that holds the classes' folders itself is split, a random fifth being the test part.
    Mean and deviation are ImageNet's.
    """
    if root is None:
        raise ValueError("image_folder needs root, the folder with the images; got None.")
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"image_folder needs root to be a folder; {root} is not one.")
    size = CROP if size is None else size
    parts = [name for name in ("train", "val", "test") if (root / name).is_dir()]
    divided = "train" in parts and len(parts) > 1
    class_names = _folders(root / "train" if divided else root)
    if len(class_names) < 2:
        where = root / "train" if divided else root
        raise ValueError(f"{where} must hold a folder for each of two or more classes.")
    if len(class_names) > MAX_CLASSES:
        raise ValueError(f"{root} must have at most {MAX_CLASSES:,} classes; it has more.")
    validation = train = test = None
    if divided:
        held = "test" if "test" in parts else "val"
        names, labels = _images(root, "train", class_names)
        if held == "test" and "val" in parts:
            more_names, more_labels = _images(root, "val", class_names)
            validation = torch.arange(len(names), len(names) + len(more_names))
            names, labels = names + more_names, labels + more_labels
        test_names, test_labels = _images(root, held, class_names)
        test = torch.arange(len(names), len(names) + len(test_names))
    else:
        all_names, all_labels = _images(root, "", class_names)
        train, test = split(len(all_names), int(len(all_names) * TEST_SHARE), seed)
        names, test_names = ([all_names[i] for i in part] for part in (train, test))
        labels, test_labels = ([all_labels[i] for i in part] for part in (train, test))
    return DataSet(
        "image_folder",
        ImageFiles(root, names, size),
        torch.tensor(labels, dtype=torch.int64),
        ImageFiles(root, test_names, size),
        torch.tensor(test_labels, dtype=torch.int64),
        classes=len(class_names),
        class_names=tuple(class_names),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        validation=validation,
        train_rows=train,
        test_rows=test,
        test_given=torch.tensor(test_labels, dtype=torch.int64),
        clean_test=False,
    )


def list_images(root: Path) -> tuple[list[str], list[int], list[str]]:
    """All images of `root/<class>/…`: names relative to the root, labels, and class names."""
    class_names = _folders(root)
    if len(class_names) < 2:
        raise ValueError(f"{root} must hold a folder for each of two or more classes.")
    return *_images(root, "", class_names), class_names


def _folders(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if p.is_dir() and not p.name.startswith("."))


def _images(root: Path, part: str, class_names: list[str]) -> tuple[list[str], list[int]]:
    """Names relative to the root, and labels, of one part."""
    unknown = set(_folders(root / part)) - set(class_names)
    if unknown:
        raise ValueError(f"{root / part / min(unknown)} is a class that {root}/train has not.")
    names, labels = [], []
    for label, class_name in enumerate(class_names):
        for folder, below, files in os.walk(root / part / class_name):
            below.sort()
            for name in sorted(files):
                # Other systems leave hidden files beside images, such as ._1.png of macOS.
                if name.lower().endswith(ENDINGS) and not name.startswith("."):
                    names.append(os.path.relpath(os.path.join(folder, name), root))
                    labels.append(label)
    if not names:
        raise ValueError(f"{root / part} must hold images ({', '.join(ENDINGS)}); it has none.")
    return names, labels
