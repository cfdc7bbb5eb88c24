"""Cells, their folders and their settings."""

from pathlib import Path

import pytest

from ptd_ext.experiments.reproduce.grid import Cell, differences

CELLS = {
    "fashion_mnist/50/PTD-R-V/3": Cell("fashion_mnist", 50, "PTD-R-V", 3),
    "mnist/12.5/Co-teaching+/0": Cell("mnist", 12.5, "Co-teaching+", 0),
    "clothing1m/real/CE/0": Cell("clothing1m", None, "CE", 0),
    "cifar10/50/PTD-F/parts-12/4": Cell("cifar10", 50, "PTD-F", 4, 12),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_and_its_folder_name_each_other(name):
    assert CELLS[name].folder(Path("/t")) == Path("/t") / name
    assert Cell.of_folder(Path("/t") / name) == CELLS[name]


def test_a_cell_has_the_settings_of_its_run():
    config = Cell("mnist", 30, "PTD-F", 2, 12).config({"epochs": 3, "n_parts": 7})
    expected = {"dataset": "mnist", "rate": 0.3, "method": "PTD-F", "seed": 2, "n_parts": 12}
    assert config == {"epochs": 3, **expected}
    assert Cell("clothing1m", None, "CE", 0).config({}) == {
        "dataset": "clothing1m",
        "noise": "none",
        "method": "CE",
        "seed": 0,
    }


def test_a_given_number_of_parts_is_for_methods_that_have_parts():
    shared = {"n_parts": 20}
    assert Cell("mnist", 30, "PTD-R", 0).config(shared)["n_parts"] == 20
    assert "n_parts" not in Cell("mnist", 30, "Forward-band", 0).config(shared)
    assert shared == {"n_parts": 20}


def test_settings_differ_if_they_change_what_is_computed():
    before = {"epochs": 5, "milestones": (3, 4), "threads": 1, "data": "/a", "lr": 0.1}
    now = {"epochs": 6, "milestones": [3, 4], "threads": 2, "data": "/b", "ridge": 0.5}
    assert differences(before, now) == [
        "epochs = 5 (now 6)",
        "lr = 0.1 (now its default)",
        "ridge = its default (now 0.5)",
    ]
    assert differences(before, dict(before)) == []
