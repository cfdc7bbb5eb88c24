"""Part transition matrices in the layout the kernels read.

A loss reads column ȳ of every part. In a contiguous [R, C, C] tensor the entries of a column lie C
apart; in the *column layout*, with strides (C, 1, R·C), the columns of all parts lie together. Like
`torch.channels_last` it is a matter of strides: the tensor stays [R, C, C], and so do its gradient,
its `state_dict` entry and everything else one does with it.
"""

from __future__ import annotations

from torch import Tensor

from ptd_ext.ops.checks import check_tensors

__all__ = ["prepare_parts"]


def prepare_parts(parts: Tensor) -> Tensor:
    """The same part transitions, laid out so that a column is contiguous.

    Losses and posteriors take parts in any layout; with parts from here they read them as they
    are. Of a plain tensor they lay out the columns they read anew at every call, since nothing
    tells them that it has not changed: prepare parts once that stay the same from step to step, as
    the modules do.

    Args:
        parts: [R, C, C], or [C, C] for one class-dependent matrix.

    Returns:
        A tensor of the same shape and values; `parts` itself if it is in this layout already.
        Differentiable: a gradient reaches `parts` as [R, C, C].
    """
    check_tensors(parts=parts)
    _check_rank(parts)
    if _is_prepared(parts):
        return parts
    if parts.dim() == 2:
        return parts.t().contiguous().t()
    return parts.permute(2, 0, 1).contiguous().permute(1, 2, 0)


def _is_prepared(parts: Tensor) -> bool:
    classes = parts.shape[-1]
    if parts.dim() == 2:
        return parts.stride() == (1, classes)
    return parts.stride() == (classes, 1, parts.shape[0] * classes)


def _check_rank(parts: Tensor) -> None:
    if parts.dim() not in (2, 3) or parts.shape[-1] != parts.shape[-2]:
        raise ValueError(f"parts must be [R, C, C] or [C, C]; got {list(parts.shape)}.")
