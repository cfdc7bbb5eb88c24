"""Rows judged by networks that were trained without them."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import ptd_ext
from ptd_ext.label_issues.cross_fit import cross_fitted, fold_rows


@pytest.mark.parametrize("seed", [0, 2**40])  # scikit-learn takes seeds of 32 bits
def test_folds_hold_out_every_row_once(seed):
    found = fold_rows([0, 1] * 6, 3, seed)
    assert len(found) == 3
    assert sorted(np.concatenate([held for _, held in found]).tolist()) == list(range(12))
    for train, held_out in found:
        assert not set(train) & set(held_out)
        assert len(train) + len(held_out) == 12


def test_folds_that_leave_one_class_are_rejected():
    with pytest.raises(ValueError, match=r"with 2 folds, fold \d leaves 6 of 1"):
        fold_rows(["once", *["often"] * 11], 2, 0)


def test_probabilities_come_from_the_other_folds(monkeypatch):
    """T(x) stays that of the model that was fitted to all rows."""
    rows, y = load_wine(return_X_y=True)
    given = ptd_ext.noise.symmetric_noise(y, 0.3, random_state=0).noisy_labels.numpy()
    model = ptd_ext.PTDClassifier("EM-F", network="linear", epochs=20, random_state=0)
    model.fit(rows, given)
    fitted, folds = [], fold_rows(given, 3, 0)
    fit = ptd_ext.PTDClassifier.fit
    monkeypatch.setattr(
        ptd_ext.PTDClassifier,
        "fit",
        lambda self, *data: fitted.append(len(data[0])) or fit(self, *data),
    )
    found = cross_fitted(model, rows, given, folds)
    assert fitted == [len(train) for train, _ in folds]
    assert found.facts["folds"] == "3"
    np.testing.assert_allclose(found.transition, model.transition_, atol=1e-6)
    assert np.abs(found.label_quality - model.label_issues_.label_quality).max() > 0.01
    assert found.noise_rate.overall.estimate == pytest.approx(1 - found.label_quality.mean())


def test_a_class_that_a_fold_does_not_see_has_no_probability():
    rows = np.random.default_rng(0).normal(size=(13, 2))
    labels = ["a", "b"] * 6 + ["alone"]
    model = ptd_ext.PTDClassifier("EM-F", network="linear", epochs=1, random_state=0)
    found = cross_fitted(model.fit(rows, labels), rows, labels, fold_rows(labels, 3, 0))
    assert found.label_quality[-1] == pytest.approx(0, abs=1e-2)
