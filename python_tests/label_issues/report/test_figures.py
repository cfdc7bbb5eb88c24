"""Heat maps and curves show the values that they are given."""

import base64
import io

import numpy as np
import pytest

from ptd_ext.label_issues.report.figures import (
    curve,
    data_url,
    heat_levels,
    heat_picture,
    png_size,
)


def test_heat_maps_show_the_values():
    image = pytest.importorskip("PIL.Image")
    values = np.array([[0.0, 1.0], [-1.0, 0.5]])
    pixels = np.asarray(image.open(io.BytesIO(heat_picture(values))).convert("RGBA")).astype(int)
    assert pixels[..., 3].tolist() == [[0, 255], [255, 129]]  # 64 of 127 steps
    assert pixels[1, 0, 0] > pixels[1, 0, 2], "below zero is orange"
    assert pixels[0, 1, 0] < pixels[0, 1, 2], "above zero is blue"


def test_levels_follow_the_square_root():
    assert heat_levels(np.array([0, 0.01, 0.25, 1, 1.0001])).tolist() == [0, 1, 4, 9, 9]


def test_size_of_a_png_is_width_and_height():
    png = heat_picture(np.zeros((3, 5)))
    assert png_size(png) == (5, 3)
    assert base64.b64decode(data_url(png).removeprefix("data:image/png;base64,")) == png


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
