"""Caveats about T(x): which rows of it the samples hardly determine."""

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.label_issues.caveats import (
    copies_caveats,
    leaking_columns,
    range_caveat,
    transition_caveats,
)
from ptd_ext.label_issues.rates import Interval, NoiseRate, wilson_interval

EVEN = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
NAMES = ["cat", "dog"]


def test_many_samples_and_a_clear_diagonal_need_no_caveat():
    assert transition_caveats(EVEN[None], torch.ones(2), 1000, class_names=NAMES) == ()


def test_rows_with_few_samples_are_named():
    found = transition_caveats(EVEN[None], torch.tensor([0.95, 0.05]), 1000, class_names=NAMES)
    assert len(found) == 1
    assert "dog" in found[0]
    assert "50" in found[0]
    assert found[0][0].isupper()


def test_classes_that_are_almost_exchanged_are_named():
    blurred = torch.tensor([[0.52, 0.48], [0.1, 0.9]])
    (found,) = transition_caveats(blurred[None], torch.ones(2), 1000, class_names=NAMES)
    assert "0.48" in found
    assert "0.52" in found


def test_parts_are_averaged_by_their_weights():
    parts = torch.stack([EVEN, EVEN.flip(1)])
    for share, caveats in ((0.9, 0), (0.1, 2)):
        weights = torch.tensor([[share, 1 - share]]).repeat(50, 1)
        found = transition_caveats(parts, torch.ones(2), 1000, weights, class_names=NAMES)
        assert len(found) == caveats


def test_long_names_are_shortened():
    names = ["x" * 10_000, "y"]
    (found,) = transition_caveats(EVEN[None], torch.ones(2), 10, class_names=names)
    assert len(found) < 500


def test_many_caveats_are_summed_up():
    blurred = torch.full((12, 12), 0.04) + 0.52 * torch.eye(12).roll(1, 1)
    found = transition_caveats(
        blurred[None], torch.ones(12), 12_000, class_names=[f"c{k}" for k in range(12)]
    )
    assert len(found) == 4
    assert found[3] == "There are 9 more caveats about the rows of other classes."


def test_rows_without_copies_need_no_caveat():
    assert copies_caveats(np.arange(5), np.zeros(5, int)) == ()


def test_copies_and_those_with_other_labels_are_counted():
    groups, codes = np.array([0, 1, 0, 2, 1, 1]), np.array([0, 1, 0, 1, 2, 1])
    copies, conflicts = copies_caveats(groups, codes)
    assert copies.startswith("3 of 6 rows are copies of others")
    assert conflicts.startswith("3 rows have copies with another label, such as rows 5 and 4")
    assert len(copies_caveats(groups, groups)) == 1


def test_a_rate_that_is_left_open_is_a_caveat():
    classes = (Interval(0.1, 0.0, 0.5), Interval(0.1, 0.1, 0.2), wilson_interval(0.0, 0))
    open_rate = NoiseRate(Interval(0.1, 0.02, 0.4), classes)
    (caveat,) = range_caveat(open_rate, ["cat", "dog", "cow"])
    assert "between 2% and 40%" in caveat
    assert "most of all for cat, dog." in caveat
    assert range_caveat(NoiseRate(Interval(0.1, 0.0, 0.2), ()), []) == ()


@pytest.mark.parametrize("kind", ["strings", "numbers"])
def test_a_column_that_holds_the_label_is_named(kind):
    pandas = pytest.importorskip("pandas")
    g = np.random.default_rng(0)
    codes = g.integers(0, 3, 400)
    leak = np.array(["x", "y", "z"])[codes] if kind == "strings" else codes + 0.5
    other = np.where(g.random(400) < 0.9, codes, 0)
    frame = pandas.DataFrame({"size": g.normal(size=400), "leak": leak, "good": other})
    columns = Columns.fit(frame)
    (caveat,) = leaking_columns(torch.from_numpy(columns.encode(frame)), columns, codes)
    assert "from one column alone: leak." in caveat
    without = frame.drop(columns="leak")
    columns = Columns.fit(without)
    assert leaking_columns(torch.from_numpy(columns.encode(without)), columns, codes) == ()
