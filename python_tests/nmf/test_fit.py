"""The iterations of a fit: momentum, and what happens where it goes too far."""

import numpy as np
import pytest
import torch
from nmf.test_estimator import mixtures, squared

from ptd_ext import SimplexNMF
from ptd_ext.nmf import _fit as _nmf_fit


def test_going_beyond_saves_iterations(monkeypatch):
    x = mixtures(rows=1000, features=30, parts=8, noise=0.3)[0]
    reached = {}
    for momentum in (0.0, _nmf_fit._FIRST_MOMENTUM):
        monkeypatch.setattr(_nmf_fit, "_FIRST_MOMENTUM", momentum)
        nmf = SimplexNMF(8, max_iter=25, tol=0, random_state=0).fit(x)
        reached[momentum] = nmf.objectives_
    plain, beyond = reached.values()
    assert beyond[-1] < plain[-1]
    assert sum(error > plain[-1] for error in beyond) < 20  # iterations, of 25


def test_going_too_far_is_taken_back(monkeypatch):
    """Side by side, some factorisations take the plain iteration and others do not."""
    x = mixtures(rows=300, features=20, parts=6, noise=0.3)[0]
    sweeps, sweep = [], _nmf_fit.weight_sweep
    monkeypatch.setattr(
        _nmf_fit, "weight_sweep", lambda *a, **k: sweeps.append(a[1].clone()) or sweep(*a, **k)
    )
    monkeypatch.setattr(_nmf_fit, "_FIRST_MOMENTUM", 8.0)
    monkeypatch.setattr(_nmf_fit, "_MAX_MOMENTUM", 20.0)
    options = {"max_iter": 15, "tol": 0, "random_state": 0}
    nmf = SimplexNMF(6, n_init=3, **options)
    weights = nmf.fit_transform(x)
    assert len(sweeps) > 15 + 1  # the iterations and the final weights
    objectives = np.array(nmf.objectives_)
    assert (np.diff(objectives) <= 1e-6 * objectives[0]).all()
    error = squared(x, torch.as_tensor(weights), torch.as_tensor(nmf.components_))
    assert error == pytest.approx(nmf.reconstruction_err_**2, rel=1e-4)
    assert error <= objectives[-1] * (1 + 1e-4)
