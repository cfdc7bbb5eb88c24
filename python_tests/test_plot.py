"""Images of parts, grids of images, and plots."""

import math
import sys

import numpy as np
import pytest
import torch
from cases import simplex_projection
from random_numbers import new_generator

from ptd_ext.label_issues.rates import wilson_interval
from ptd_ext.plot import (
    image_grid,
    part_images,
    plot_noise_rates,
    plot_part_images,
    plot_parts,
    plot_transition,
)

G = new_generator(0)
PARTS = torch.rand(4, 3, 3, generator=G, dtype=torch.float64).softmax(-1)
WEIGHTS = simplex_projection(torch.randn(50, 4, generator=G, dtype=torch.float64))


def test_part_images_are_the_parts_of_the_observations():
    images = torch.rand(4, 5, 6, generator=new_generator(3), dtype=torch.float64)
    observations = torch.einsum("nj,jab->nab", WEIGHTS, images)
    for given in (observations, observations.numpy()):
        torch.testing.assert_close(part_images(WEIGHTS, given), images)
    noisy = observations + torch.randn(50, 5, 6, generator=new_generator(4))
    expected = torch.linalg.lstsq(WEIGHTS, noisy.flatten(1)).solution
    torch.testing.assert_close(part_images(WEIGHTS, noisy), expected.view(4, 5, 6))


def test_part_images_read_in_blocks(tmp_path, monkeypatch):
    images = np.memmap(tmp_path / "images", np.uint8, "w+", shape=(50, 4, 4))
    images[:] = np.random.default_rng(0).integers(0, 256, images.shape)
    whole = part_images(WEIGHTS, images)
    monkeypatch.setattr("ptd_ext.plot._BLOCK", 48)
    torch.testing.assert_close(part_images(WEIGHTS, images), whole)


def test_image_grid():
    images = torch.arange(5 * 2 * 3).view(5, 2, 3)
    grid = image_grid(images, columns=3)
    assert grid.shape == (5, 11)
    assert grid[0, 0] == 0
    assert grid[1, 2] == 1
    assert (grid[2] == 1).all()  # between the lines
    assert (grid[3:, 8:] == 1).all()  # no sixth image
    np.testing.assert_array_equal(grid[:2, :3], grid[3:, 4:7])
    fixed = image_grid(images, columns=3, limits=(0, 100))
    assert fixed[3, 4] == pytest.approx(0.24)
    assert image_grid(torch.rand(7, 3, 8, 8)).shape == (26, 26, 3)
    assert image_grid(torch.rand(7, 8, 8, 3), gap=0).shape == (24, 24, 3)
    assert np.isfinite(image_grid(torch.zeros(2, 3, 4))).all()


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    observations = torch.rand(50, 36, generator=new_generator(5))
    axes, images = plot_part_images(WEIGHTS, observations, image_shape=(6, 6))
    assert images.shape == (4, 6, 6)
    assert axes.images[0].get_array().shape == (13, 13)
    again, images = plot_part_images(WEIGHTS, observations.view(50, 1, 6, 6), axes=axes)
    assert again is axes
    assert images.shape == (4, 6, 6)
    drawn = plot_parts(PARTS)
    assert drawn.images[0].get_array().shape == (7, 7)
    drawn.figure.savefig(tmp_path / "parts.png")


def test_heat_map_of_classes():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = plot_transition(torch.tensor([[0.9, 0.1], [0.003, 0.997]]), ["a", "b"])
    assert [text.get_text() for text in axes.texts] == ["90", "10", "100"]
    assert axes.images[0].get_array()[0, 0] == pytest.approx(0.9**0.5)
    assert not plot_transition(torch.eye(21)).texts
    with pytest.raises(ValueError, match=r"matrix must be \[C, C\]; got \[2, 3\]"):
        plot_transition(torch.rand(2, 3))
    with pytest.raises(ValueError, match="names must have one name for each of 2 classes; got 1"):
        plot_transition(torch.eye(2), ["a"])
    pyplot.close("all")


def test_rates_of_classes():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    rates = [wilson_interval(0.25, 40), wilson_interval(float("nan"), 0)]
    axes = plot_noise_rates(rates, ["a", "b"])
    assert [bar.get_width() for bar in axes.patches] == [25]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert plot_noise_rates(rates[1:], axes=axes) is axes
    pyplot.close("all")


def test_plots_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r'needs Matplotlib: pip install "ptd_ext\[all'):
        plot_parts(PARTS)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"observations must be \[50, …\].*; got \[3, 2\]"):
        part_images(WEIGHTS, torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"images must be .*; got \[3, 2\]"):
        image_grid(torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"images must be .* H and W at least 1; got \[3, 0, 0\]"):
        image_grid(torch.rand(3, 0, 0))
    with pytest.raises(ValueError, match=r"images must be .* at least 1; got \[4, 0, 0\]"):
        plot_part_images(WEIGHTS, torch.rand(50, 0, 0))
    with pytest.raises(ValueError, match=r"columns must be an integer >= 1; got 1\.5"):
        image_grid(torch.rand(3, 2, 2), columns=1.5)
    with pytest.raises(ValueError, match="gap must be an integer >= 0; got -2"):
        image_grid(torch.rand(3, 2, 2), gap=-2)
    with pytest.raises(ValueError, match="columns must be an integer >= 1; got 0"):
        image_grid(torch.rand(3, 2, 2), columns=0)
    with pytest.raises(ValueError, match=r"limits must be two finite numbers.*; got \(1,\)"):
        image_grid(torch.rand(3, 2, 2), limits=(1,))
    with pytest.raises(ValueError, match=r"limits must be two finite numbers.*; got \(0, nan\)"):
        image_grid(torch.rand(3, 2, 2), limits=(0, math.nan))
    with pytest.raises(
        ValueError, match=r"limits must be two finite numbers, the lower first; got \(1, 1\)"
    ):
        image_grid(torch.rand(3, 2, 2), limits=(1, 1))
    with pytest.raises(ValueError, match=r"image_shape must have 12 entries.*; got \(5, 5\)"):
        plot_part_images(WEIGHTS, torch.rand(50, 12), image_shape=(5, 5))
