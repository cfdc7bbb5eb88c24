"""Ranks training labels by how likely they are wrong, and draws the most doubtful of each class.

`python examples/which_labels_are_wrong.py doubtful.png` takes scikit-learn's digits with 20 % of
the labels wrong. It never sees which: the true labels only judge the ranking at the end.
"""

import sys

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import ptd_ext

torch.manual_seed(0)
pixels, clean = load_digits(return_X_y=True)
noise = ptd_ext.instance_dependent_noise(pixels, clean, 0.2, seed=1)
images, noisy_labels = torch.tensor(pixels, dtype=torch.float32) / 16, noise.noisy_labels


def train_network(criterion, epochs):
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    network = nn.Sequential(body, nn.Linear(128, 10))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            criterion(network(images[batch]), batch).backward()
            optimiser.step()
    return network.requires_grad_(False)


# T(x) from a network that was trained on the noisy labels, then a network trained through it.
plain = train_network(lambda logits, batch: cross_entropy(logits, noisy_labels[batch]), 15)
posteriors = plain(images).softmax(1)
weights = ptd_ext.SimplexNMF(n_parts=10, random_state=0).fit_transform(plain[0](images))
anchors = ptd_ext.find_anchors(posteriors)
parts = ptd_ext.fit_part_transitions(weights, posteriors, anchors).parts
through = train_network(
    lambda logits, batch: ptd_ext.forward_loss(logits, noisy_labels[batch], weights[batch], parts),
    30,
)

# P(true label | x, noisy label) of every training sample.
posterior = ptd_ext.clean_posterior(through(images), noisy_labels, weights, parts)
probability_right = posterior.gather(1, noisy_labels[:, None])[:, 0]
suggested = posterior.argmax(1)
doubtful = probability_right.argsort(stable=True)

wrong = noisy_labels != noise.labels
for count in (100, int(wrong.sum())):
    first = doubtful[:count]
    print(f"{wrong[first].float().mean():.0%} of the {count} most doubtful labels are wrong")

figure = Figure(figsize=(8, 1.3), layout="constrained")
for label, axes in enumerate(figure.subplots(1, 10)):
    sample = doubtful[noisy_labels[doubtful] == label][0]
    axes.imshow(pixels[sample].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"labelled {label}\nrather {suggested[sample]}", fontsize=9)
    axes.set_axis_off()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "doubtful.png", dpi=120)
