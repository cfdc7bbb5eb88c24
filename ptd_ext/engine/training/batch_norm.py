"""Batch normalisation over the whole batch when processes share it, on CPUs too.

torch's `SyncBatchNorm` needs GPUs. Here torch's differentiable all-reduce adds up the sums and the
sums of squares of all ranks, so that values and gradients equal those of one process.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.modules.batchnorm import _BatchNorm


class SharedBatchNorm(_BatchNorm):
    """Batch normalisation that trains with the statistics of all ranks' rows."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any input: the layer that this one replaces has its own check."""

    def forward(self, input: Tensor) -> Tensor:
        """(x − mean) / √(var + ε) · weight + bias, by channel."""
        if not self.training:
            return super().forward(input)
        others = [d for d in range(input.dim()) if d != 1]
        count = input.new_full((1,), input.numel() / input.shape[1])
        sums = all_reduce(torch.cat([input.sum(others), count]))
        total = sums[-1].detach()
        shape = [1, -1, *[1] * (input.dim() - 2)]
        centred = input - (sums[:-1] / total).view(shape)
        variance = all_reduce(centred.square().sum(others)) / total
        self._update_running(sums[:-1].detach() / total, variance.detach(), total)
        scale = (variance + self.eps).rsqrt()
        if self.affine:
            scale = scale * self.weight
        result = centred * scale.view(shape)
        return result + self.bias.view(shape) if self.affine else result

    def _update_running(self, mean: Tensor, variance: Tensor, total: Tensor) -> None:
        """Update the running statistics, the variance unbiased, as torch does."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        unbiased = variance * total / (total - 1)
        self.running_mean += share * (mean - self.running_mean)
        self.running_var += share * (unbiased - self.running_var)


def over_ranks(network: nn.Module) -> nn.Module:
    """Share the statistics of the network's batch normalisations over all ranks."""
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.__class__ = SharedBatchNorm  # the parameters and their names stay
    return network
