"""Weights from a file to start training from."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor, nn

from ptd_ext.utils.bounded_files import reading
from ptd_ext.utils.formats.torch_files import read_torch
from ptd_ext.utils.tensor_files import check_header

LAST = "fc"
# A ResNet-50 has 98 MB.
_MAX_FILE = 1 << 32


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """A state dict from a file of safetensors or of `torch.save`; no code of the file is run."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"weights must be a file with a state dict; {path} is not a file.")
    if path.suffix == ".safetensors":
        check_header(path)
        with reading(path, "a safetensors file"):
            from safetensors.torch import load_file

            state = load_file(path)
    else:
        state = read_torch(path, _MAX_FILE)
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise ValueError(f"{path} must hold a state dict, tensors by name, and nothing else.")
    return state


def load_weights(network: nn.Module, path: str | os.PathLike[str]) -> None:
    """Load a state dict into the network; it runs no code of the file.

    The last layer, called `fc`, keeps its fresh weights where the file's is for another number of
    classes. Every other parameter must be there, in the same shape.
    """
    state = read_weights(path)
    own = network.state_dict()
    for name in (f"{LAST}.weight", f"{LAST}.bias"):
        if name in own and name in state and own[name].shape[0] != state[name].shape[0]:
            state = {**state, name: own[name]}
    kind = type(network).__name__
    # Files from before torch 0.4.1 have no counters of batches; they only matter without momentum.
    missing = sorted(n for n in own if n not in state and not n.endswith("num_batches_tracked"))
    unknown = sorted(name for name in state if name not in own)
    if missing or unknown:
        what = f"{missing[0]} is missing" if missing else f"{unknown[0]} is not one of them"
        raise ValueError(
            f"{path} must hold the weights of this {kind}; {what} "
            f"({len(missing)} missing, {len(unknown)} unknown of {len(own)})."
        )
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise ValueError(
                f"{path} must hold the weights of this {kind}; {name} must be "
                f"{list(own[name].shape)}, got {list(value.shape)}."
            )
    network.load_state_dict(state, strict=False)
