"""The definitions, against loops over samples and classes that spell out the formulas."""

import math

import pytest
import torch
from cases import make_inputs

from ptd_ext.ops import reference


@pytest.fixture
def batch():
    return make_inputs(6, 4, 3, slack=0.1, ignored=False, grad=False)


def transition(batch, n):
    """T(x) of one sample, revised: clamped at zero, rows divided by their sums."""
    parts = batch.parts.tolist()
    weights = batch.weights[n].tolist()
    rows = []
    for i in range(4):
        row = [
            sum(h * part[i][k] for h, part in zip(weights, parts, strict=True))
            + batch.slack[i, k].item()
            for k in range(4)
        ]
        row = [max(entry, 0) for entry in row]
        rows.append([entry / sum(row) for entry in row])
    return rows


def test_every_definition(batch):
    softmax = batch.logits.softmax(-1).tolist()
    noisy = reference.noisy_posterior(batch.logits, *batch.transition)
    clean = reference.clean_posterior(*batch.arguments, smoothing=0.0)
    forward = reference.forward_loss(*batch.arguments, reduction="none", smoothing=0.0)
    reweight = reference.reweight_loss(*batch.arguments, reduction="none", smoothing=0.0)
    matrices = reference.transition_matrix(*batch.transition)
    for n, label in enumerate(batch.labels.tolist()):
        matrix, g = transition(batch, n), softmax[n]
        p = [sum(g[i] * matrix[i][k] for i in range(4)) for k in range(4)]
        q = [g[i] * matrix[i][label] / p[label] for i in range(4)]
        assert matrices[n].tolist() == [pytest.approx(row) for row in matrix]
        assert noisy[n].tolist() == pytest.approx(p)
        assert clean[n].tolist() == pytest.approx(q)
        assert forward[n].item() == pytest.approx(-math.log(p[label]))
        assert reweight[n].item() == pytest.approx(-g[label] / p[label] * math.log(g[label]))


def test_reductions(batch):
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 3, -100])
    arguments = (batch.logits, labels, *batch.transition)
    plain = reference.forward_loss(*arguments, reduction="none")
    weighted = reference.forward_loss(*arguments, reduction="none", class_weight=weight)
    of_samples = torch.tensor([1.0, 2.0, 0.5, 3.0, 3.0, 0.0], dtype=torch.float64)
    assert plain[5] == 0
    torch.testing.assert_close(weighted, plain * of_samples)
    mean = reference.forward_loss(*arguments, class_weight=weight)
    torch.testing.assert_close(mean, weighted.sum() / of_samples.sum())
    total = reference.forward_loss(*arguments, class_weight=weight, reduction="sum")
    torch.testing.assert_close(total, weighted.sum())


def test_projections():
    rows = torch.tensor([[0.5, 0.5, -1.0], [2.0, 0.0, 0.0], [-1.0, -1.0, -1.0]])
    expected = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(reference.simplex_projection(rows), expected)
    torch.testing.assert_close(reference.project_transition(rows), expected)


def test_half_types_are_accumulated_in_float32():
    x = torch.ones(2)
    for dtype in (torch.float16, torch.bfloat16):
        assert reference.accumulated(x.to(dtype)).dtype is torch.float32
    assert reference.accumulated(x.double()).dtype is torch.float64
