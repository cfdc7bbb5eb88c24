"""Evidence calibrated by the likelihood of given labels."""

import numpy as np
import pytest
import torch

from ptd_ext.label_issues.calibration import calibrate

CENTRES = torch.eye(3, dtype=torch.float64) * 2.5
UNIFORM = torch.full((3, 3), 1 / 3, dtype=torch.float64)


def draw(seed, rows=1500, rate=0.25):
    """Log-probabilities of the true class, true classes and given labels."""
    g = np.random.default_rng(seed)
    true = g.integers(0, 3, rows)
    points = CENTRES[true] + torch.from_numpy(g.standard_normal((rows, 3)))
    evidence = (-(torch.cdist(points, CENTRES) ** 2) / 2).log_softmax(1)
    given = np.where(g.random(rows) < rate, (true + g.integers(1, 3, rows)) % 3, true)
    return evidence, torch.from_numpy(true), torch.from_numpy(given)


@pytest.mark.parametrize("sure", [0.5, 1.0, 3.0])
def test_quality_is_a_probability_however_sure_the_evidence_is(sure):
    """Rows with a quality of about q are right in a share q, at three levels."""
    evidence, true, given = draw(0)
    found = calibrate(sure * evidence[None], given, UNIFORM, [1])
    assert found.temperatures[0] * sure == pytest.approx(1, rel=0.3)
    quality = found.posterior.gather(1, given[:, None])[:, 0]
    right = (true == given).double()
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        rows = (quality >= low) & (quality <= high)
        assert quality[rows].mean() == pytest.approx(right[rows].mean().item(), abs=0.12)
    wrong = 1 - right.mean().item()
    assert found.rate_range[0] < wrong < found.rate_range[1]
    assert 1 - quality.mean() == pytest.approx(wrong, abs=0.04)


def test_clean_labels_have_next_to_no_doubt():
    evidence, true, _ = draw(1)
    found = calibrate(evidence[None], true, UNIFORM, [1])
    assert (found.posterior.argmax(1) != true).double().mean() < 0.01
    assert found.rate_range[0] < 0.005
    # As many labels differ from the most probable class, which may be errors of either.
    assert found.rate_range[1] > (found.clean_probs.argmax(1) != true).double().mean()


def test_evidence_that_tells_nothing_has_no_weight():
    evidence, _, given = draw(2)
    noise = torch.randn(1500, 3, generator=torch.Generator().manual_seed(0)).double()
    found = calibrate(torch.stack([evidence, noise]), given, UNIFORM, [1, 1])
    assert found.temperatures[1] < 0.3 < found.temperatures[0]


def test_rates_that_are_known_to_differ_between_classes_are_found():
    evidence, true, _ = draw(3, rows=3000)
    g = np.random.default_rng(0)
    wrong = torch.from_numpy(g.random(3000)) < torch.tensor([0.05, 0.2, 0.4])[true]
    given = torch.where(wrong, (true + 1) % 3, true)
    matrix = calibrate(evidence[None], given, UNIFORM, [1]).transition
    assert 1 - matrix.diagonal() == pytest.approx([0.05, 0.2, 0.4], abs=0.06)
    assert matrix[2, 0] > 0.8 * (1 - matrix[2, 2])


def test_many_rows_are_judged_by_a_fit_to_some(monkeypatch):
    evidence, _, given = draw(4, rows=4000)
    whole = calibrate(evidence[None], given, UNIFORM, [1])
    monkeypatch.setattr("ptd_ext.label_issues.calibration._MAX_NUMBERS", 3 * 2000)
    some = calibrate(evidence[None], given, UNIFORM, [1])
    assert some.posterior.shape == (4000, 3)
    assert (some.posterior - whole.posterior).abs().mean() < 0.02


def test_where_labels_cannot_tell_the_first_temperature_counts():
    """Evidence of two values: one in ten labels differs, by errors of either."""
    true = torch.arange(100) % 2
    given = torch.where(torch.arange(100) < 10, 1 - true, true)
    evidence = 8 * torch.eye(2)[true].double()
    matrix = UNIFORM[:2, :2]
    sure, unsure = (calibrate(t * evidence[None], given, matrix, [1]) for t in (1, 0.2))
    assert (sure.posterior.argmax(1) == true).all()
    assert (unsure.posterior.argmax(1) == given).all()
    for found in (sure, unsure):
        assert found.rate_range[0] < 0.02
        assert found.rate_range[1] > 0.1
