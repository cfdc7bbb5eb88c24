"""Heat maps show the values that they are given."""

import base64
import io

import numpy as np
import pytest

from ptd_ext.utils.png import data_url, heat_picture, png_size


def test_heat_maps_show_the_values():
    image = pytest.importorskip("PIL.Image")
    values = np.array([[0.0, 1.0], [-1.0, 0.5]])
    pixels = np.asarray(image.open(io.BytesIO(heat_picture(values))).convert("RGBA")).astype(int)
    assert pixels[..., 3].tolist() == [[0, 255], [255, 129]]  # 64 of 127 steps
    assert pixels[1, 0, 0] > pixels[1, 0, 2], "below zero is orange"
    assert pixels[0, 1, 0] < pixels[0, 1, 2], "above zero is blue"


def test_size_of_a_png_is_width_and_height():
    png = heat_picture(np.zeros((3, 5)))
    assert png_size(png) == (5, 3)
    assert base64.b64decode(data_url(png).removeprefix("data:image/png;base64,")) == png
