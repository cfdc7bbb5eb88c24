"""The data of the scripts beside this one: noisy digits with an estimate of T(x)."""

from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

import ptd_ext


class NoisyDigits(NamedTuple):
    """Training images, their noisy labels and weights h(x), the part transitions, a clean test."""

    images: Tensor  # [N, 64]
    noisy_labels: Tensor  # [N]
    weights: Tensor  # [N, R]
    parts: Tensor  # [R, C, C]
    test_images: Tensor  # [M, 64]
    test_labels: Tensor  # [M]


def noisy_digits() -> NoisyDigits:
    """scikit-learn's digits, 40 % of the training labels wrong."""
    pixels, labels = load_digits(return_X_y=True)
    noise = ptd_ext.noise.symmetric_noise(labels[:1400], 0.4, random_state=0)
    forest = RandomForestClassifier(100, min_samples_leaf=3, oob_score=True, random_state=0)
    forest.fit(pixels[:1400], noise.noisy_labels)
    pred_probs = torch.tensor(forest.oob_decision_function_, dtype=torch.float32)
    images = torch.tensor(pixels, dtype=torch.float32) / 16
    weights = ptd_ext.SimplexNMF(n_parts=5, random_state=0).fit_transform(images[:1400])
    anchors = ptd_ext.find_anchors(pred_probs, band=(90, 98))
    parts = ptd_ext.fit_part_transitions(weights, pred_probs, anchors).parts
    test = images[1400:], torch.tensor(labels[1400:])
    return NoisyDigits(images[:1400], noise.noisy_labels, weights, parts, *test)


def perceptron() -> nn.Sequential:
    """A small network."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
