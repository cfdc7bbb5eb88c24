"""Trains through T(x) in a plain loop: scikit-learn's digits, 40 % of the labels wrong.

`python examples/drop_in_loss.py [SEED]` prints the clean test accuracy of cross entropy and of PTD.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import ptd_ext

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
pixels, labels = load_digits(return_X_y=True)
noise = ptd_ext.instance_dependent_noise(pixels, labels, 0.4, random_state=seed)
images, clean = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels)
order = torch.randperm(len(images))
train, test = order[:-360], order[-360:]
noisy_labels = noise.noisy_labels[train]


def train_network(criterion, epochs):
    """Fit a fresh network to the noisy labels; `criterion` takes logits and sample numbers."""
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    network = nn.Sequential(body, nn.Linear(128, 10))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(train)).split(64):
            optimiser.zero_grad()
            criterion(network(images[train[batch]]), batch).backward()
            optimiser.step()
    return network


def test_accuracy(network):
    return (network(images[test]).argmax(1) == clean[test]).float().mean().item()


# The usual training, by cross entropy. Its network also gives the estimate of T(x).
plain = train_network(lambda logits, batch: cross_entropy(logits, noisy_labels[batch]), 20)
with torch.no_grad():
    features = plain[0](images[train])
    pred_probs = plain(images[train]).softmax(1)

weights = ptd_ext.SimplexNMF(n_parts=10, random_state=seed).fit_transform(features)
anchors = ptd_ext.find_anchors(pred_probs)
parts = ptd_ext.fit_part_transitions(weights, pred_probs, anchors).parts

# The one line that changes.
through = train_network(
    lambda logits, batch: ptd_ext.forward_loss(logits, noisy_labels[batch], weights[batch], parts),
    40,
)
print(f"wrong labels    {noise.realised_rate:.1%}")
print(f"cross entropy   {test_accuracy(plain):.1%}")
print(f"through T(x)    {test_accuracy(through):.1%}")
