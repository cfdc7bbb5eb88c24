"""Trains through T(x) in several processes: torchrun --nproc-per-node=2 two_processes.py.

Every process has its share of scikit-learn's digits. On machines with GPUs the same script takes
one GPU per process: the backend becomes "nccl" and tensors and modules go to their device.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import ptd_ext

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # the same initial weights everywhere; DDP keeps them equal

pixels, labels = load_digits(return_X_y=True)
ids = torch.arange(rank, 1797 // ranks * ranks, ranks)  # this process's samples, equally many
images = torch.tensor(pixels[ids], dtype=torch.float32) / 16
# Noise is a function of the seed and the sample's id: every process draws its own share of it.
noise = ptd_ext.instance_dependent_noise(pixels[ids], labels[ids], 0.4, random_state=0, ids=ids)
noisy_labels = noise.noisy_labels


def gathered(tensor):
    """The rows of all processes."""
    parts = [torch.empty_like(tensor) for _ in range(ranks)]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


def train_network(criterion, epochs):
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    network = DistributedDataParallel(nn.Sequential(body, nn.Linear(128, 10)))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64 // ranks):
            optimiser.zero_grad()
            criterion(network(images[batch]), batch).backward()  # DDP averages the gradients
            optimiser.step()
    return network.module.requires_grad_(False)


plain = train_network(lambda logits, batch: cross_entropy(logits, noisy_labels[batch]), 20)
# All processes fit the same parts, each with its own rows.
nmf = ptd_ext.SimplexNMF(n_parts=10, random_state=0, process_group="world")
weights = nmf.fit_transform(plain[0](images))
all_weights, pred_probs = gathered(weights), gathered(plain(images).softmax(1))
anchors = ptd_ext.find_anchors(pred_probs)
parts = ptd_ext.fit_part_transitions(all_weights, pred_probs, anchors).parts
through = train_network(
    lambda logits, batch: ptd_ext.forward_loss(logits, noisy_labels[batch], weights[batch], parts),
    30,
)

for name, network in (("cross entropy", plain), ("through T(x)", through)):
    right = (network(images).argmax(1) == noise.labels).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"{name}: {right / len(pred_probs):.1%} of the true labels, {ranks} processes")
dist.barrier()  # no process leaves while another still needs it
dist.destroy_process_group()
