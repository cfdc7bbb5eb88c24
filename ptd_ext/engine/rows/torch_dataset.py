"""The samples and labels of a torch Dataset."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset


def read_dataset(dataset: Dataset[Any]) -> tuple[Tensor, list[Any] | None]:
    """All samples as one tensor, and their labels if the dataset has any."""
    if isinstance(dataset, IterableDataset):
        raise TypeError("X must be a Dataset with a length and numbered samples.")
    samples, labels = [], []
    for index in range(len(dataset)):  # type: ignore[arg-type]
        item = dataset[index]
        if isinstance(item, (tuple, list)):
            item, label = item[0], item[1]
            labels.append(label.item() if isinstance(label, Tensor) else label)
        try:
            samples.append(torch.as_tensor(item))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"X must hold tensors or arrays; sample {index} of the Dataset is "
                f"{type(item).__name__}. Give it a transform, such as torchvision's "
                "PILToTensor for pictures."
            ) from None
    if not samples:
        raise ValueError("X must hold at least one sample; got an empty Dataset.")
    shapes = {tuple(sample.shape) for sample in samples}
    if len(shapes) > 1:
        raise ValueError(
            f"X must hold samples of one shape; got {sorted(shapes)[:3]}. Resize images first."
        )
    if labels and len(labels) != len(samples):
        raise ValueError("X must hold a label for every sample or for none.")
    return torch.stack(samples), labels or None
