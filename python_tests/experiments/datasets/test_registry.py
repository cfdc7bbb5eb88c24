"""The registry of data sets: options, settings, and what a new entry makes available."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from ptd_ext.cli import main
from ptd_ext.experiments.datasets.dataset import DataSet
from ptd_ext.experiments.datasets.registry import DATA_SETS, DataSetEntry, load, options
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.reproduce.published import accuracy
from ptd_ext.experiments.settings import ExperimentSettings

HOOKS = Path(__file__).parents[3] / "docs" / "hooks.py"


def docs_table(name):
    if not HOOKS.is_file():
        pytest.skip("the pages are not part of the wheel")
    spec = importlib.util.spec_from_file_location("hooks", HOOKS)
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks.on_page_markdown(f"<!-- {name} -->")


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_entry_is_complete(name):
    entry = DATA_SETS[name]
    known = ExperimentSettings.entries()
    assert {*entry.all_options, *entry.settings, *entry.fast} <= known.keys()
    assert resolve({"dataset": name}, {"n_parts": 3, "method": "PTD-F"}).dataset == name
    assert f"| `{name}` | {entry.help} |" in docs_table("data sets")
    assert entry.own_noise == (entry.settings.get("noise") == "none" and not entry.user_data)


def test_options_of_other_data_sets_are_rejected():
    assert {"labels_file", "word_vectors", "image_size", "label"} <= set(options())
    with pytest.raises(ValueError, match=r"dataset must be one of digits, .*; got 'imagenet'"):
        load("imagenet")
    with pytest.raises(ValueError, match="text_headers does not apply to digits; got 'keep'"):
        load("digits", text_headers="keep")
    with pytest.raises(ValueError, match="human_labels must come with labels_file"):
        load("mnist", human_labels="worse_label")
    with pytest.raises(ValueError, match="data does not apply to digits, which has no files; got"):
        load("digits", "my.csv")
    assert len(load("digits", image_size=0, labels_file="").train_labels) == 1438


def test_why_a_data_set_cannot_be_used(tmp_path):
    entry = DataSetEntry(lambda root, seed: None, "nothing", modules=("no_such_module",))
    assert entry.missing() == 'no_such_module is not installed: pip install "ptd_ext[all]"'
    assert DATA_SETS["digits"].missing() == ""
    assert DATA_SETS["mnist"].missing(tmp_path) == ""
    assert DATA_SETS["mnist"].missing(tmp_path / "none").endswith("none does not exist")


def load_blobs(root, seed, image_size=1):
    generator = np.random.default_rng(seed)
    labels = torch.arange(300) % 3
    rows = 4.0 * labels[:, None] + torch.from_numpy(generator.normal(size=(300, 2)))
    rows = image_size * rows.float()
    parts = (rows[:200], labels[:200], rows[200:], labels[200:])
    return DataSet("blobs", *parts, class_names=("a", "b", "c"))


@pytest.fixture
def blobs(monkeypatch):
    entry = DataSetEntry(
        load_blobs,
        "three clouds of points",
        options=("image_size",),
        settings={"network": "linear"},
        table_size=200,
    )
    monkeypatch.setitem(DATA_SETS, "blobs", entry)


@pytest.mark.usefixtures("blobs")
@pytest.mark.parametrize("command", ["train", "noise", "reproduce"])
def test_a_new_data_set_is_in_the_help(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert "blobs" in capsys.readouterr().out


@pytest.mark.usefixtures("blobs")
def test_a_new_data_set_is_in_the_docs():
    assert "| `blobs` | three clouds of points | `--image-size` |" in docs_table("data sets")


@pytest.mark.usefixtures("blobs")
def test_a_new_data_set_is_trained_on(tmp_path, capsys):
    quick = ["--epochs", "2", "--warm-up-epochs", "2", "--n-parts", "2", "--threads", "1"]
    main(
        ["train", "--dataset", "blobs", "--method", "PTD-F", "--out", str(tmp_path / "run"), *quick]
    )
    assert "PTD-F" in capsys.readouterr().out
    assert 'network = "linear"' in (tmp_path / "run" / "settings.toml").read_text()
    assert accuracy("blobs", "CE", 50) is None
