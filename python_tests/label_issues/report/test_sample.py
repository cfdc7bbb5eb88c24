"""A sample shows exactly one thing."""

import numpy as np
import pytest

from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.png import heat_picture


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of png, text and row; got none"),
        ({"png": b"", "text": ""}, "got png and text"),
        ({"png": b"GIF89a"}, "png must hold the bytes of a PNG file"),
        ({"png": b"\x89PNG\r\n\x1a\n"}, "png must hold the bytes of a PNG file"),
    ],
)
def test_other_contents_are_rejected(fields, message):
    with pytest.raises(ValueError, match=message):
        Sample(**fields)


def test_empty_text_and_a_picture_of_one_pixel_are_samples():
    assert Sample(text="").text == ""
    assert Sample(png=heat_picture(np.zeros((1, 1)))).row is None
