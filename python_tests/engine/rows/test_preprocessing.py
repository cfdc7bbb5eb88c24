"""Preprocessing: the same rows give the same tensors in training and later."""

import numpy as np
import pytest
import torch
from random_numbers import new_generator

from ptd_ext.engine.rows import preprocessing
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.preprocessing import IMAGENET, Preprocessing

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_images_are_normalised_by_channel(monkeypatch, dtype):
    monkeypatch.setattr(preprocessing, "_PIECE", 4)
    images = torch.randint(0, 256, (11, 2, 3, 5), generator=new_generator(0))
    images[:, 1] = 7  # a constant channel is not divided by zero
    given = images.to(dtype)
    found, stored = Preprocessing.fit(given)
    scaled = found(stored)
    assert torch.equal(given, images.to(dtype))  # the caller's images stay as they are
    assert stored.dtype == (torch.uint8 if dtype == torch.uint8 else torch.float32)
    values = images.double()
    torch.testing.assert_close(found.mean, values.mean((0, 2, 3)))
    spread = torch.stack([values[:, 0].std(correction=0), torch.ones(()).double()])
    torch.testing.assert_close(found.scale, spread)
    expected = (values - found.mean.view(1, 2, 1, 1)) / spread.view(1, 2, 1, 1)
    torch.testing.assert_close(scaled, expected.float())
    assert torch.equal(found(found.store(given[5:])), scaled[5:])


def test_fetched_images_can_be_channels_last():
    found, stored = Preprocessing.fit(torch.rand(4, 3, 5, 5))
    assert found(stored, channels_last=True).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found(stored, channels_last=True), found(stored))


def test_known_moments_of_bytes_are_fractions_of_255():
    images = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    found = Preprocessing.for_images([1, 1, 2], [0.5], [0.25], as_bytes=True)
    torch.testing.assert_close(found(images), torch.tensor([[[[-2.0, 2.0]]]]))
    plain = Preprocessing.for_images([1, 1, 2], None, None, as_bytes=True)
    assert plain(images).tolist() == [[[[0.0, 255.0]]]]


def test_known_moments_replace_those_of_the_images():
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    found = Preprocessing.fit(images, moments=IMAGENET)[0]
    assert found.mean.tolist() == pytest.approx([123.675, 116.28, 103.53])
    assert found.as_bytes


def test_image_files_have_the_moments_of_their_pixels(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    for row in range(9):
        pixels = RANDOM.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image.fromarray(pixels).save(tmp_path / f"{row}.png")
    names = ImageFiles(tmp_path, [f"{row}.png" for row in range(9)], 8)
    found, stored = Preprocessing.fit(names)
    assert stored is names
    assert (found.files, found.as_bytes, found.shape) == (True, True, (3, 8, 8))
    decoded = Preprocessing.fit(names[:])[0]
    assert torch.equal(found.mean, decoded.mean)
    assert torch.equal(found.scale, decoded.scale)
    assert found.store(names) is names
    assert found.store(names.resized(16)).size == 8
    # Of many files, only some are read, evenly spaced.
    monkeypatch.setattr(preprocessing, "_FILES_READ", 3)
    assert torch.equal(
        Preprocessing.fit(names)[0].mean, Preprocessing.fit(names[[0, 4, 8]])[0].mean
    )


def test_tokens_stay_what_they_are():
    tokens = torch.tensor([[0, 1, 5]], dtype=torch.int32)
    found, stored = Preprocessing.fit(tokens, words=6)
    assert (found.kind, found.words, found.shape) == ("tokens", 6, (3,))
    assert stored.dtype == torch.int32
    assert torch.equal(stored, tokens)


def test_tables_are_standardised_once_and_undone():
    rows = 100 + 10 * RANDOM.normal(size=(50, 3))
    rows[:, 2] = 7
    found, stored = Preprocessing.fit(rows)
    torch.testing.assert_close(stored[:, :2].mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(stored[:, :2].std(0, correction=0), torch.ones(2))
    assert not stored[:, 2].any()
    assert found(stored) is stored
    assert torch.equal(found.store(rows.tolist()), stored)
    torch.testing.assert_close(found.undo(stored).numpy(), rows, rtol=1e-6, atol=0)


def test_a_column_far_from_zero_is_not_constant():
    seconds = 1.7e9 + np.arange(100.0)
    rows = np.stack([seconds, np.full(100, 0.1), np.full(100, 1.7e9)], axis=1)
    stored = Preprocessing.fit(rows)[1]
    assert stored[:, 0].std(correction=0).item() == pytest.approx(1)
    assert stored[:, 1:].abs().max() < 1e-6


def test_half_precision_rows_are_taken():
    rows = torch.arange(12.0).reshape(6, 2).bfloat16()
    assert torch.equal(Preprocessing.fit(rows)[1], Preprocessing.fit(rows.float())[1])


def test_wide_sparse_rows_are_projected():
    """The seed may be larger than those of scikit-learn, which projects."""
    sparse = pytest.importorskip("scipy.sparse")
    rows = sparse.csr_array(np.eye(6, 1200))
    found, stored = Preprocessing.fit(rows, seed=2**40)
    assert stored.shape == (6, 5)
    assert found.n_features == found.width == 1200
    torch.testing.assert_close(found.store(rows), stored)
    torch.testing.assert_close(found.store(rows.toarray()), stored)
    narrow, dense = Preprocessing.fit(sparse.csr_array(np.eye(6)))
    assert torch.equal(narrow.store(np.eye(6)), dense)


def test_columns_of_a_frame_count_before_categories():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": range(8), "kind": list("abcc" * 2)})
    found, stored = Preprocessing.fit(frame)
    assert (found.n_features, found.width, stored.shape) == (2, 4, (8, 4))
    assert torch.equal(found.store(frame[["kind", "size"]]), stored)


def tokens():
    return Preprocessing("tokens", torch.Size([3]), 3, words=6)


def files():
    return Preprocessing.for_images([3, 8, 8], None, None, as_bytes=True, files=True)


def test_tokens_and_files_are_stored_as_they_are():
    assert tokens().store([[0, 1, 5]]).tolist() == [[0, 1, 5]]
    for paths in (["a.png", "b.png"], np.array(["a.png", "b.png"])):
        found = files().store(paths)
        assert isinstance(found, ImageFiles)
        assert len(found) == 2
    pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert torch.equal(files().store(pixels), pixels)


def fitted(rows):
    return lambda: Preprocessing.fit(rows)[0]


FLOATS, BYTES = torch.rand(5, 1, 4, 4), torch.zeros(5, 1, 4, 4, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("made", "rows", "message"),
    [
        (fitted(np.eye(4)), np.ones((2, 3)), "has 3 features, but FittedModel is expecting 4"),
        (fitted(np.eye(4)), FLOATS, r"rows of 4, as in fit; got \[5, 1, 4, 4\]"),
        (fitted(np.eye(4)), np.full((2, 4), np.nan), "X contains NaN"),
        (fitted(FLOATS), np.ones((2, 4)), r"images \[N, 1, height, width\], as in fit"),
        (fitted(FLOATS), FLOATS[:, :, :3], r"shape \[1, 4, 4\], as in training; got \[1, 3, 4\]"),
        (fitted(FLOATS), BYTES, "images of floats as in training; got torch.uint8"),
        (fitted(BYTES), FLOATS, "images of uint8, from 0 to 255, as in training; got torch.float"),
        (tokens, [[0, 1, 6]], "word indices from 0 to 5; it has 0 to 6"),
        (tokens, [[0, 1, -1]], "word indices from 0 to 5; it has -1 to 1"),
        (tokens, [[0.0, 1.0, 2.0]], r"integers \[N, 3\]; got float64 \[1, 3\]"),
        (tokens, [[0, 1]], r"integers \[N, 3\]; got int64 \[1, 2\]"),
        (files, "a.png", "X must be a list of image files, or their pixels; got 'a.png'"),
    ],
)
def test_rows_unlike_those_of_training_are_rejected(made, rows, message):
    with pytest.raises(ValueError, match=message):
        made().store(rows)


@pytest.mark.parametrize(
    ("number", "size"), [(1e308, "large"), (1e31, "large"), (1e-31, "small"), (1e-100, "small")]
)
def test_numbers_too_large_or_small_to_standardise_are_named(number, size):
    with pytest.raises(ValueError, match=f"too {size} to be standardised in column 1"):
        Preprocessing.fit(np.array([[0, number], [0, -number], [0, number]]))
