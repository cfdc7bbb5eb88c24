"""Levels and curves show the values that they are given."""

import numpy as np

from ptd_ext.label_issues.report.figures import curve, heat_levels


def test_levels_follow_the_square_root():
    assert heat_levels(np.array([0, 0.01, 0.25, 1, 1.0001])).tolist() == [0, 1, 4, 9, 9]


def test_curves_have_gaps_and_dots():
    drawn = curve("loss", [2.0, 1.0, float("nan"), 0.0])
    assert drawn.path == "M0.0 0.0L0.0 0.0L100.0 60.0M300.0 120.0L300.0 120.0"
    assert (drawn.top, drawn.bottom, drawn.epochs) == ("2", "0", 4)
    assert drawn.description == "loss over 4 epochs: from 2 to 0, minimum 0, maximum 2."
    assert curve("none", [float("inf")]) is None
    assert curve("one", [3.0]).path == "M0.0 0.0L0.0 0.0"


def test_long_curves_are_thinned():
    assert curve("long", np.arange(1e5)).path.count("L") == 1000
    assert curve("exact", np.arange(1000.0)).path.count("L") == 1000
