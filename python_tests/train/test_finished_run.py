"""load_run: which folders it takes, and sentences for those it does not."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext import load_run
from ptd_ext.train.engine.experiment import train


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


@pytest.fixture(scope="module")
def finished(clusters, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    train(quick_settings(clusters, "PTD-F", epochs=5), out, CPU)
    return out


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def test_predictions_are_those_of_the_run(clusters, finished):
    run = load_run(str(finished))
    held = np.load(clusters)
    accuracy = 100 * (run.predict(held["x_test"]) == held["y_test"]).mean()
    assert accuracy == pytest.approx(run.result["test_accuracy"])
    assert run.classes.tolist() == [0, 1, 2, 3]
    tensors = run.predict_proba(torch.from_numpy(held["x_test"]))
    np.testing.assert_array_equal(tensors, run.predict_proba(held["x_test"].tolist()))
    assert len(run.label_issues) == 700


@pytest.mark.parametrize("method", ["Forward", "T-Revision", "PTD-R-V", "EM-F", "PTD-L"])
def test_every_kind_of_transition(clusters, tmp_path, method):
    train(quick_settings(clusters, method), tmp_path / "run", CPU)
    run = load_run(tmp_path / "run")
    x = np.load(clusters)["x"][:50]
    matrices = run.transition(x)
    assert matrices.shape == (50, 4, 4)
    np.testing.assert_allclose(matrices.sum(2), 1, rtol=1e-5)
    assert len(run.label_issues) == 700


def test_a_method_without_transition(clusters, tmp_path):
    train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)
    run = load_run(tmp_path / "run")
    assert run.predict(np.load(clusters)["x"]).shape == (700,)
    for wanted in (lambda: run.transition(np.zeros((1, 8))), lambda: run.label_issues):
        with pytest.raises(ValueError, match="a run of CE, which estimates no T"):
            wanted()


def test_bytes_and_floats_are_told_apart(tmp_path):
    images = np.random.default_rng(0).integers(256, size=(60, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=images, y=np.arange(60) % 2)
    settings = quick_settings(tmp_path / "images.npz", "CE", network="lenet5")
    train(settings, tmp_path / "run", CPU)
    run = load_run(tmp_path / "run")
    assert run.predict(images).shape == (60,)
    with pytest.raises(ValueError, match="X must be images of uint8"):
        run.predict(images.astype(np.float32))
    with pytest.raises(ValueError, match=r"samples of shape \[1, 12, 12\].*got \[1, 10, 12\]"):
        run.predict(images[:, :10])


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((2, 7)), r"shape \[8\], as in training; got \[7\]"),
        (np.full((2, 8), np.nan), "X must be finite"),
        (np.zeros((0, 8)), "at least one sample"),
        (np.array([["a"] * 8]), "X must hold numbers"),
    ],
)
def test_samples_that_do_not_fit(finished, x, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_run(finished).predict(x)


def change_result(folder, **changes):
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, **changes}))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: shutil.rmtree(f), "is not a folder"),
        (lambda f: (f / "settings.toml").unlink(), "holds no run of `ptd-ext train`"),
        (lambda f: (f / "result.json").unlink(), "not finished.*Continue it with.*--resume"),
        (lambda f: (f / "result.json").write_text("{"), "damaged, it is not JSON"),
        (lambda f: (f / "result.json").write_text("[]"), "must hold the result of a run"),
        (lambda f: change_result(f, fingerprint="0"), "are of different runs"),
        (lambda f: (f / "model.safetensors").unlink(), "earlier version of ptd_ext"),
        (lambda f: flip(f / "model.safetensors"), "do not have the checksum"),
        (lambda f: flip(f / "transition.safetensors"), "do not have the checksum"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04N."), "model.safetensors"),
        (
            lambda f: shutil.copy(f / "transition.safetensors", f / "model.safetensors"),
            "must hold a trained model; it holds a part transition",
        ),
    ],
)
def test_folders_without_a_finished_run(folder, damage, sentence):
    damage(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        load_run(folder)


def test_damaged_findings(folder):
    flip(folder / "labels.safetensors")
    with pytest.raises(ValueError, match="do not have the checksum"):
        _ = load_run(folder).label_issues


class Own(nn.Module):
    def __init__(self, classes, inputs):
        super().__init__()
        self.fc = nn.Linear(inputs.numel(), classes)

    def forward(self, x):
        return x, self.fc(x)


def test_a_network_of_ones_own_is_given_not_imported(clusters, tmp_path, monkeypatch):
    (tmp_path / "my_network.py").write_text(
        "from torch import nn\n"
        "class Own(nn.Module):\n"
        "    def __init__(self, classes, inputs):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(inputs.numel(), classes)\n"
        "    def forward(self, x):\n"
        "        return x, self.fc(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    train(quick_settings(clusters, "CE", network="my_network:Own"), tmp_path / "run", CPU)
    with pytest.raises(ValueError, match="give that function as network"):
        load_run(tmp_path / "run")
    run = load_run(tmp_path / "run", network=Own)
    assert run.predict(np.zeros((3, 8))).shape == (3,)
