"""Part transition matrices in the layout the kernels read.

A loss reads column ȳ of every part. In a contiguous [R, C, C] tensor the entries of a column lie C
apart; in the *column layout*, with strides (C, 1, R·C), the columns of all parts lie together. Like
`torch.channels_last` it only changes strides: the tensor, its gradient and its `state_dict` entry
stay [R, C, C].
"""

from __future__ import annotations

from torch import Tensor

from ptd_ext.ops.checks import check_tensors


def prepare_parts(parts: Tensor) -> Tensor:
    """Return the same part transitions, laid out so that a column is contiguous.

    Losses and posteriors accept parts in any layout. They read prepared parts as they are; of a
    plain tensor they copy the columns they need at every call, since its values may have changed.
    Prepare parts once if they stay the same from step to step, as the modules do.

    Args:
        parts: [R, C, C], or [C, C] for one class-dependent matrix.

    Returns:
        A tensor of the same shape and values; `parts` itself if it already has this layout.
        Differentiable: a gradient reaches `parts` as [R, C, C].

    Examples:
        >>> parts = ptd_ext.ops.prepare_parts(torch.eye(3).expand(2, 3, 3))
        >>> parts.shape
        torch.Size([2, 3, 3])
    """
    check_tensors(parts=parts)
    if parts.dim() not in (2, 3) or parts.shape[-1] != parts.shape[-2]:
        raise ValueError(f"parts must be [R, C, C] or [C, C]; got {list(parts.shape)}.")
    order, back = ((1, 0), (1, 0)) if parts.dim() == 2 else ((2, 0, 1), (1, 2, 0))
    columns = parts.permute(order)
    return parts if columns.is_contiguous() else columns.contiguous().permute(back)
