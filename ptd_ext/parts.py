"""Part transition matrices in the layout the kernels read.

A loss reads column ȳ of every part. In a contiguous [R, C, C] tensor the entries of a column lie C
apart; in the *column layout*, with strides (C, 1, R·C), the columns of all parts lie together. Like
`torch.channels_last` it is a matter of strides: the tensor stays [R, C, C], and so do its gradient,
its `state_dict` entry and everything else one does with it.
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

__all__ = ["prepare_parts"]


def prepare_parts(parts: Tensor) -> Tensor:
    """The same part transitions, laid out so that a column is contiguous.

    Losses take parts in any layout; with parts from here they read them as they are. A plain tensor
    is prepared at its first use and again whenever its version counter says that it was written to
    in place; that cannot see writes through `.data` or a NumPy array that shares its memory. Inside
    `torch.compile`, where tensors have no identity to remember them by, preparing ahead saves a
    copy of the parts at every step.

    Args:
        parts: [R, C, C], or [C, C] for one class-dependent matrix.

    Returns:
        A tensor of the same shape and values; `parts` itself if it is in this layout already.
        Differentiable: a gradient reaches `parts` as [R, C, C].
    """
    _check_rank(parts)
    if _is_prepared(parts):
        return parts
    if parts.dim() == 2:
        return parts.t().contiguous().t()
    return parts.permute(2, 0, 1).contiguous().permute(1, 2, 0)


def prepared(parts: Tensor, dtype: torch.dtype, revised: bool) -> tuple[Tensor, Tensor | None]:
    """`prepare_parts(parts.to(dtype))`, remembered from call to call for a plain tensor.

    With it comes, for the revised losses on the CPU, what `ptd_ext::part_support` says of the zeros
    among many classes; None where that cannot be remembered, and is found out at every step.
    """
    wants_support = revised and parts.shape[-1] >= _FEWEST_CLASSES and parts.device.type == "cpu"
    if not _can_remember(parts):
        return prepare_parts(parts.to(dtype)), None
    memory = _remembered.get(id(parts))
    # An id can be another tensor's later: the weak reference tells them apart.
    if memory is None or memory.source() is not parts or memory.state != _state(parts, dtype):
        memory = _remembered[id(parts)] = _Memory(parts, dtype)
    if wants_support and memory.support is None:
        with torch.inference_mode(False):
            memory.support = torch.ops.ptd_ext.part_support(memory.columns_of(parts).detach())
    return memory.columns_of(parts), memory.support if wants_support else None


def _state(parts: Tensor, dtype: torch.dtype) -> tuple:
    """What must stay the same for what is remembered of a tensor to hold.

    Writes move the version counter, `parts.data = …` the address; and a copy made on one CUDA
    stream need not be ready on another.
    """
    stream = torch.cuda.current_stream(parts.device).cuda_stream if parts.is_cuda else None
    return parts._version, parts.data_ptr(), parts.stride(), dtype, stream


class _Memory:
    """What is known of a tensor of parts, as long as it lives and is not written to."""

    __slots__ = ("_columns", "source", "state", "support")

    def __init__(self, parts: Tensor, dtype: torch.dtype) -> None:
        key = id(parts)
        self.source = weakref.ref(parts, lambda _: _remembered.pop(key, None))
        # Taken before anything is derived: a write in the meantime must not pass unnoticed.
        self.state = _state(parts, dtype)
        with torch.inference_mode(False):  # what is evaluated today may be trained tomorrow
            columns = prepare_parts(parts.detach().to(dtype))
        # A copy of its own; not the tensor's memory, which would be kept alive by this.
        self._columns = None if columns.data_ptr() == parts.data_ptr() else columns
        self.support: Tensor | None = None

    def columns_of(self, parts: Tensor) -> Tensor:
        """The parts in column layout: the tensor itself where it is in that layout."""
        return parts if self._columns is None else self._columns


_remembered: dict[int, _Memory] = {}
_FEWEST_CLASSES = 32  # below this the support is never used; as in csrc/cpu/decision.h


def _can_remember(parts: Tensor) -> bool:
    if torch.compiler.is_compiling() or type(parts) not in (Tensor, torch.nn.Parameter):
        return False
    if parts.requires_grad and torch.is_grad_enabled():
        return False  # the copy must be part of the graph
    if parts.is_cuda and torch.cuda.is_current_stream_capturing():
        return False  # the copy would live in the graph's memory
    # Inference tensors have no version; those inside a functorch transform are wrappers.
    return not parts.is_inference() and not torch._C._are_functorch_transforms_active()


def _is_prepared(parts: Tensor) -> bool:
    classes = parts.shape[-1]
    if parts.dim() == 2:
        return parts.stride() == (1, classes)
    return parts.stride() == (classes, 1, parts.shape[0] * classes)


def _check_rank(parts: Tensor) -> None:
    if parts.dim() not in (2, 3) or parts.shape[-1] != parts.shape[-2]:
        raise ValueError(f"parts must be [R, C, C] or [C, C]; got {list(parts.shape)}.")
