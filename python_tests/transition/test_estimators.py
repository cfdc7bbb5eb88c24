"""The registry of estimators: every entry runs, and returns the attributes they share."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from ptd_ext.ops.layout import prepare_parts
from ptd_ext.transition.estimators import ESTIMATORS

N, C, R = 600, 3, 2
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def inputs():
    g = torch.Generator().manual_seed(0)
    clean = torch.arange(N) % C
    features = 6 * torch.eye(C, 8)[clean] + torch.randn(N, 8, generator=g)
    matrix = 0.7 * torch.eye(C) + 0.1
    noisy = torch.multinomial(matrix[clean], 1, generator=g)[:, 0]
    clean_probs = (8 * torch.eye(C)[clean]).softmax(1)
    return {
        "features": features,
        "noisy_labels": noisy,
        "clean_probs": clean_probs,
        "pred_probs": clean_probs @ matrix,
        "weights": torch.rand(N, R, generator=g).softmax(1),
        "noise_rate": 0.2,
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_share_their_attributes(name, inputs):
    found = ESTIMATORS[name](**inputs)
    assert found.transition.shape == (C, C)
    assert found.parts.shape[1:] == (C, C)
    assert found.class_prior.shape == (C,)
    torch.testing.assert_close(found.class_prior.sum(), torch.tensor(1.0))
    assert found.noise_rate == pytest.approx(0.2, abs=0.05)
    summary = found.summary(class_names=["ant", "bee", "cow"])
    assert summary.noise_rate == pytest.approx(found.noise_rate, abs=1e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_losses_take_what_they_hand_out_without_a_copy(name, inputs):
    found = ESTIMATORS[name](**inputs)
    for tensor in (found.parts, found.transition):
        assert prepare_parts(tensor) is tensor


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_need_is_needed(name, inputs):
    estimator = ESTIMATORS[name]
    assert estimator.missing(inputs) == []
    for need in estimator.needs:
        fewer = {key: value for key, value in inputs.items() if key != need}
        assert estimator.missing(fewer) == [need]
        with pytest.raises(ValueError, match=f"{estimator.function} needs .*; {need} is missing"):
            estimator(**fewer)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_public_and_documented(name):
    estimator = ESTIMATORS[name]
    assert estimator.name == name
    module, function = estimator.function.rsplit(".", 1)
    assert function in importlib.import_module(module).__all__
    for page in ("docs/benchmarks/transition_estimators.md", "docs/reference/transition.md"):
        assert function in (ROOT / page).read_text()


def test_samples_in_another_order_are_rejected(inputs):
    """Rows of pandas objects are paired by position, whatever their index is."""
    pandas = pytest.importorskip("pandas")
    frames = {
        name: (pandas.DataFrame if np.ndim(rows) == 2 else pandas.Series)(np.asarray(rows))
        for name, rows in inputs.items()
        if np.ndim(rows)
    }
    several = [name for name, each in ESTIMATORS.items() if len(set(each.needs) & set(frames)) > 1]
    assert several
    for name in several:
        *_, last = (need for need in ESTIMATORS[name].needs if need in frames)
        with pytest.raises(ValueError, match="the same index in another order"):
            ESTIMATORS[name](**inputs | frames | {last: frames[last][::-1]})
