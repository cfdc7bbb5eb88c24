"""A trained model in a file: networks, preprocessing and classes, for `load_run`. No code in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext.label_issues.inputs.labels import array_of
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.engine.placement import build_network
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils import tensor_files
from ptd_ext.utils.distributed import Ranks

__all__ = [
    "KIND",
    "MODEL",
    "TRANSITION",
    "class_values",
    "feature_network",
    "part_transition",
    "write_model",
]

KIND = "a trained model"
MODEL = "model.safetensors"
TRANSITION = "transition.safetensors"
FEATURES = "warm_up.pt"


def class_values(names: Sequence[str]) -> NDArray[Any]:
    """The classes as labels: whole numbers where the names are just these, else the names."""
    if tuple(names) == tuple(map(str, range(len(names)))):
        return np.arange(len(names))
    return array_of(names)


def part_transition(t: TransitionEstimate, about: dict[str, Any] | None = None) -> PartTransition:
    """The learned T(x) without what belongs to single samples."""
    return PartTransition(t.parts, t.basis, t.slack, gate=t.gate, about=about)


def feature_network(trainer: Trainer) -> nn.Module | None:
    """The network whose features the parts of T(x) are mixed by; None where T is one matrix."""
    t = trainer.outputs.transition
    if t is None or len(t.parts) == 1 or trainer.out is None:
        return None
    # A file of this run, which a stage wrote before it trained through T(x).
    state = torch.load(trainer.out / FEATURES, map_location="cpu", weights_only=True)
    network = build_network(trainer.settings, trainer.problem, trainer.device, Ranks(), 0)
    network.load_state_dict(state)
    return network


def write_model(trainer: Trainer, path: Path) -> None:
    """Write all that predicting new samples as the best network does needs, but for T(x)."""
    problem, settings = trainer.problem, trainer.settings
    tensors: dict[str, Tensor] = {f"network.{n}": t for n, t in trainer.best.network.items()}
    features = feature_network(trainer)
    if features is not None:
        tensors |= {f"feature_network.{n}": t for n, t in features.state_dict().items()}
    scale, stored = problem.train.scale, problem.train.stored
    files = isinstance(stored, ImageFiles)
    if problem.column_scale is not None:
        tensors |= {"mean": problem.column_scale.mean, "std": problem.column_scale.std}
    elif scale.mean is not None and scale.std is not None:
        tensors |= {
            "mean": torch.tensor(scale.mean, dtype=torch.float64),
            "std": torch.tensor(scale.std, dtype=torch.float64),
        }
    about = {
        "classes": class_values(problem.class_names).tolist(),
        "network": settings.network,
        "inputs": list(problem.sample_shape),
        "tokens": problem.embedding is not None,
        "files": files,
        "bytes": files or stored.dtype == torch.uint8,
        "fingerprint": trainer.fingerprint,
    }
    tensor_files.write(path, KIND, tensors, about)
