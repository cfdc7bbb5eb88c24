"""The learned object, the approximation error, and pictures of parts."""

import math
import sys

import numpy as np
import pytest
import torch
from cases import each_device, simplex_projection

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.utils import tensor_files

G = torch.Generator().manual_seed(0)
BASIS = torch.randn(4, 12, generator=G, dtype=torch.float64)
PARTS = torch.rand(4, 3, 3, generator=G, dtype=torch.float64).softmax(-1)
SLACK = 0.2 * torch.randn(3, 3, generator=G, dtype=torch.float64)
WEIGHTS = simplex_projection(torch.randn(50, 4, generator=G, dtype=torch.float64))
LEARNED = ptd_ext.PartTransition(PARTS, BASIS, SLACK)


@each_device
def test_weights_of_new_features(device):
    """Mixtures of the basis have the weights they were mixed with; others the nearest mixture's."""
    learned = LEARNED.to(device)
    found = learned.weights((WEIGHTS @ BASIS).to(device)).cpu()
    torch.testing.assert_close(found, WEIGHTS, rtol=0, atol=1e-4)
    features = 3 * torch.randn(40, 12, generator=torch.Generator().manual_seed(1)).double()
    weights = learned.weights(features.to(device)).cpu()
    gradient = (weights @ BASIS - features) @ BASIS.T
    moved = reference.simplex_projection(weights - gradient)
    torch.testing.assert_close(moved, weights, rtol=0, atol=1e-3)


def test_matrix():
    features = WEIGHTS @ BASIS
    expected = reference.transition_matrix(WEIGHTS, PARTS, SLACK)
    torch.testing.assert_close(LEARNED.matrix(weights=WEIGHTS), expected)
    torch.testing.assert_close(LEARNED.matrix(features), expected, rtol=0, atol=1e-3)
    plain = ptd_ext.PartTransition(PARTS)
    torch.testing.assert_close(
        plain.matrix(weights=WEIGHTS), reference.transition_matrix(WEIGHTS, PARTS)
    )


def test_matrix_keeps_the_gradient_of_weights():
    weights = WEIGHTS.clone().requires_grad_()
    LEARNED.matrix(weights=weights)[:, 0, 0].sum().backward()
    assert weights.grad is not None
    assert weights.grad.any()


def test_takes_a_fitted_factorisation():
    class Fitted:
        components_ = BASIS.numpy()

    assert torch.equal(ptd_ext.PartTransition(PARTS, Fitted()).basis, BASIS)


def test_to():
    single = LEARNED.to(torch.float32)
    assert single.parts.dtype == single.basis.dtype == single.slack.dtype == torch.float32
    assert repr(single) == "PartTransition(parts=4, classes=3, features=12, revised)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((PARTS[0],), r"parts must be \[R, C, C\]; got \[3, 3\]"),
        ((PARTS, BASIS[:2]), r"basis must be \[4, D\]; got \[2, 12\]"),
        ((PARTS, BASIS, SLACK[:2]), r"slack must be \[3, 3\]; got \[2, 3\]"),
        ((PARTS, BASIS / 0), "basis must be finite"),
        ((3 * PARTS,), r"rows of probabilities with sum 1; parts\[0, 0\] has the sum 3\."),
        ((PARTS * PARTS[2, 1].ne(PARTS),), r"parts\[2, 1\] has the sum 0\."),
        ((1.002 * PARTS.float(),), r"sum 1; parts\[0, 0\] has the sum 1\.002"),
        ((1.02 * PARTS.bfloat16(),), "rows of probabilities with sum 1"),
    ],
)
def test_parts_that_do_not_fit(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        ptd_ext.PartTransition(*arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_as_their_type_rounds_them(dtype, tmp_path):
    """Also those of many classes, and through a file."""
    for classes in (3, 100, 1000):
        parts = torch.randn(1, classes, classes, generator=torch.Generator().manual_seed(0))
        learned = ptd_ext.PartTransition((5 * parts).softmax(-1).to(dtype))
        learned.save(tmp_path / "parts")
        assert torch.equal(ptd_ext.PartTransition.load(tmp_path / "parts").parts, learned.parts)


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_a_file_of_parts_that_are_no_probabilities(factor, tmp_path):
    tensor_files.write(tmp_path / "t", "a part transition", {"parts": factor * PARTS}, {})
    with pytest.raises(ValueError, match=rf"t holds no usable .* has the sum {factor:g}\.$"):
        ptd_ext.PartTransition.load(tmp_path / "t")


def test_arguments_that_are_no_numbers():
    for arguments in (("x",), (None,), (PARTS, "x"), (PARTS, BASIS, "x")):
        with pytest.raises(TypeError, match="must be a tensor, an array or a list of numbers; got"):
            ptd_ext.PartTransition(*arguments)
    with pytest.raises(TypeError, match="gate must be a LinearGate; got str"):
        ptd_ext.PartTransition(PARTS, gate="x")
    with pytest.raises(TypeError, match=r"features must be floating-point; got torch\.int64"):
        LEARNED.weights(torch.ones(2, 12, dtype=torch.int64))
    found = LEARNED.matrix(weights=WEIGHTS.numpy())
    assert torch.equal(found, LEARNED.matrix(weights=WEIGHTS))


def test_types_of_eight_bits():
    """torch computes nothing with them, not even their smallest entry."""
    parts = torch.eye(3).expand(2, 3, 3).to(torch.float8_e4m3fn)
    with pytest.raises(TypeError, match="parts must be floating-point, of 16 bits or more"):
        ptd_ext.PartTransition(parts)
    with pytest.raises(TypeError, match="gate weight must be a floating-point tensor"):
        ptd_ext.LinearGate(parts[0], torch.zeros(3), torch.zeros(3))


def test_bad_calls():
    with pytest.raises(ValueError, match=r"features must be \[N, 12\]; got \[5, 3\]"):
        LEARNED.weights(torch.rand(5, 3))
    with pytest.raises(ValueError, match="weights need a basis"):
        ptd_ext.PartTransition(PARTS).weights(torch.rand(5, 12))
    with pytest.raises(ValueError, match="matrix takes features or weights, one of them"):
        LEARNED.matrix()
    with pytest.raises(ValueError, match=r"weights must be \[N, 4\]; got \[5, 3\]"):
        LEARNED.matrix(weights=torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"parts must be floating-point, .*; got torch.int64"):
        ptd_ext.PartTransition(torch.ones(2, 3, 3, dtype=torch.int64))


@pytest.mark.parametrize("slack", [None, SLACK, SLACK - 2])
@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_approximation_error(weights, slack):
    labels = torch.arange(50) % 3
    rows = torch.rand(50, 3, generator=torch.Generator().manual_seed(2)).softmax(1)
    parts = PARTS if weights is not None else PARTS[0]
    matrix = reference.transition_matrix(weights, parts, slack).expand(50, 3, 3)
    expected = (rows - matrix[torch.arange(50), labels]).abs().sum(1).mean().item()
    found = ptd_ext.approximation_error(rows, labels, weights, parts, slack)
    assert found == pytest.approx(expected, rel=1e-6)


def test_approximation_error_of_the_truth_is_zero():
    made = ptd_ext.symmetric_noise(torch.arange(60) % 3, 0.3, seed=0)
    matrix = torch.full((3, 3), 0.15).fill_diagonal_(0.7)
    assert ptd_ext.approximation_error(made.rows, made.labels, None, matrix) < 1e-6
    flipped = matrix[:, [1, 2, 0]]
    assert ptd_ext.approximation_error(made.rows, made.labels, None, flipped) == pytest.approx(
        1.1, abs=1e-6
    )


def test_approximation_error_raises():
    rows, labels = torch.rand(50, 3), torch.arange(50) % 3
    for arguments, sentence in (
        ((rows, labels, WEIGHTS, PARTS[0]), r"parts must be \[R, 3, 3\]; got \[3, 3\]"),
        ((rows, labels, None, PARTS), r"parts must be \[3, 3\]; got \[4, 3, 3\]"),
        ((rows, labels[:4], WEIGHTS, PARTS), r"labels must be \[50\] and not empty; got \[4\]"),
        ((rows, labels, WEIGHTS[:4], PARTS), r"weights must be \[50, 4\]; got \[4, 4\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            ptd_ext.approximation_error(*arguments)


def test_part_images_are_the_parts_of_the_observations():
    images = torch.rand(4, 5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    observations = torch.einsum("nj,jab->nab", WEIGHTS, images)
    for given in (observations, observations.numpy()):
        torch.testing.assert_close(ptd_ext.part_images(WEIGHTS, given), images)
    noisy = observations + torch.randn(50, 5, 6, generator=torch.Generator().manual_seed(4))
    expected = torch.linalg.lstsq(WEIGHTS, noisy.flatten(1)).solution
    torch.testing.assert_close(ptd_ext.part_images(WEIGHTS, noisy), expected.view(4, 5, 6))


def test_part_images_read_in_blocks(tmp_path, monkeypatch):
    images = np.memmap(tmp_path / "images", np.uint8, "w+", shape=(50, 4, 4))
    images[:] = np.random.default_rng(0).integers(0, 256, images.shape)
    whole = ptd_ext.part_images(WEIGHTS, images)
    monkeypatch.setattr("ptd_ext.transition.plot._BLOCK", 48)
    torch.testing.assert_close(ptd_ext.part_images(WEIGHTS, images), whole)


def test_image_grid():
    images = torch.arange(5 * 2 * 3).view(5, 2, 3)
    grid = ptd_ext.image_grid(images, columns=3)
    assert grid.shape == (5, 11)
    assert grid[0, 0] == 0
    assert grid[1, 2] == 1
    assert (grid[2] == 1).all()  # between the lines
    assert (grid[3:, 8:] == 1).all()  # no sixth image
    np.testing.assert_array_equal(grid[:2, :3], grid[3:, 4:7])
    fixed = ptd_ext.image_grid(images, columns=3, limits=(0, 100))
    assert fixed[3, 4] == pytest.approx(0.24)
    assert ptd_ext.image_grid(torch.rand(7, 3, 8, 8)).shape == (26, 26, 3)
    assert ptd_ext.image_grid(torch.rand(7, 8, 8, 3), gap=0).shape == (24, 24, 3)
    assert np.isfinite(ptd_ext.image_grid(torch.zeros(2, 3, 4))).all()


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    observations = torch.rand(50, 36, generator=torch.Generator().manual_seed(5))
    axes, images = ptd_ext.plot_part_images(WEIGHTS, observations, image_shape=(6, 6))
    assert images.shape == (4, 6, 6)
    assert axes.images[0].get_array().shape == (13, 13)
    again, images = ptd_ext.plot_part_images(WEIGHTS, observations.view(50, 1, 6, 6), axes=axes)
    assert again is axes
    assert images.shape == (4, 6, 6)
    drawn = LEARNED.plot()
    assert drawn.images[0].get_array().shape == (7, 7)
    drawn.figure.savefig(tmp_path / "parts.png")


def test_drawing_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r'needs matplotlib: pip install "ptd_ext\[plot'):
        LEARNED.plot()


def test_pictures_of_what_is_none():
    with pytest.raises(ValueError, match=r"observations must be \[50, …\].*; got \[3, 2\]"):
        ptd_ext.part_images(WEIGHTS, torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"images must be .*; got \[3, 2\]"):
        ptd_ext.image_grid(torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"images must be .* H and W at least 1; got \[3, 0, 0\]"):
        ptd_ext.image_grid(torch.rand(3, 0, 0))
    with pytest.raises(ValueError, match=r"images must be .* at least 1; got \[4, 0, 0\]"):
        ptd_ext.plot_part_images(WEIGHTS, torch.rand(50, 0, 0))
    with pytest.raises(ValueError, match=r"columns must be a whole number of at least 1; got 1\.5"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), columns=1.5)
    with pytest.raises(ValueError, match="gap must be a whole number of at least 0; got -2"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), gap=-2)
    with pytest.raises(ValueError, match="columns must be a whole number of at least 1; got 0"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), columns=0)
    with pytest.raises(ValueError, match=r"limits must be two finite numbers.*; got \(1,\)"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), limits=(1,))
    with pytest.raises(ValueError, match=r"limits must be two finite numbers.*; got \(0, nan\)"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), limits=(0, math.nan))
    with pytest.raises(ValueError, match=r"limits must have the lower number first; got \(1, 1\)"):
        ptd_ext.image_grid(torch.rand(3, 2, 2), limits=(1, 1))
    with pytest.raises(ValueError, match=r"image_shape must have 12 entries.*; got \(5, 5\)"):
        ptd_ext.plot_part_images(WEIGHTS, torch.rand(50, 12), image_shape=(5, 5))
