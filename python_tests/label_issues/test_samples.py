"""What the page shows of a row, whatever kind of data the rows are."""

import io

import numpy as np
import pytest
import torch

from ptd_ext.label_issues.samples import png_of, show_rows


def pixels(png):
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(png)))


def test_pictures_of_floats_are_scaled_to_all_shades():
    shades = np.linspace(-3, 5, 64 * 64).reshape(1, 64, 64)
    for values, expected in (
        (shades, (255 * (shades + 3) / 8).astype(np.uint8)),
        (np.full((1, 64, 64), 7.0), np.zeros((1, 64, 64), np.uint8)),
        ((200 * np.ones((3, 64, 64))).astype(np.uint8), np.full((1, 64, 64), 200, np.uint8)),
    ):
        found = pixels(png_of(values))
        found = found[:: len(found) // 64, :: len(found) // 64]
        np.testing.assert_allclose(found[..., 0].astype(int), expected[0].astype(int), atol=1)


@pytest.mark.parametrize(
    ("height", "width", "shown"),
    [(8, 8, (96, 96)), (95, 200, (190, 400)), (96, 97, (96, 97)), (1, 1, (96, 96))],
)
def test_small_pictures_are_enlarged_by_whole_factors(height, width, shown):
    assert pixels(png_of(np.zeros((1, height, width), np.uint8))).shape == (*shown, 3)


def test_channels_beyond_three_are_ignored():
    values = np.stack([np.full((96, 96), shade, np.uint8) for shade in (10, 20, 30, 40)])
    assert pixels(png_of(values))[0, 0].tolist() == [10, 20, 30]
    assert pixels(png_of(values[:2]))[0, 0].tolist() == [10, 10, 10]


def test_images_are_shown_as_pictures():
    images = torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 1, 96, 96)
    assert pixels(show_rows(images)(2).png)[0, 0].tolist() == [2, 2, 2]


def test_strings_in_a_shuffled_column_are_shown_by_position():
    pandas = pytest.importorskip("pandas")
    for index in ([2, 0, 1], ["x", "y", "z"]):
        show = show_rows(pandas.Series(["first", "second", "third"], index=index))
        assert [show(row).text for row in range(3)] == ["first", "second", "third"]
    assert show_rows(["first", "second"])(1).text == "second"


def test_tables_are_shown_by_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.5, 2.5], "kind": ["a", "b"]}, index=[7, 3])
    assert show_rows(frame)(1).row == {"size": "2.5", "kind": "b"}
    assert show_rows(np.array([[1.0, 2.0], [3.0, 4.25]]))(1).row == {"0": "3", "1": "4.25"}
    assert show_rows(torch.tensor([[1.0], [3.0]]))(1).row == {"0": "3"}


def test_sparse_rows_show_their_largest_values():
    sparse = pytest.importorskip("scipy.sparse")
    show = show_rows(sparse.csr_matrix(np.array([[0, 1.0, 0, -5.0]])))
    assert list(show(0).row.items()) == [("3", "-5"), ("1", "1")]


def test_samples_of_a_dataset():
    class Rows(torch.utils.data.Dataset):
        def __init__(self, items):
            self.items = items

        def __len__(self):
            return len(self.items)

        def __getitem__(self, index):
            return self.items[index], 0

    assert show_rows(Rows(["one", "two"]))(1).text == "two"
    assert show_rows(Rows([torch.tensor([1.0, 2.0])]))(0).row == {"0": "1", "1": "2"}
    assert show_rows(Rows([torch.zeros(1, 96, 96)]))(0).png is not None
