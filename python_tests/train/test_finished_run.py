"""load_run: which folders it takes, and sentences for those it does not."""

import json
import shutil

import numpy as np
import pytest
import torch
from fuzz.limited import MEGABYTE, run_one
from torch import nn
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext import PartTransition, load_run
from ptd_ext.train import networks
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.engine.experiment import train
from ptd_ext.train.engine.trained_model import KIND
from ptd_ext.train.model_file import read_model
from ptd_ext.utils import tensor_files


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


def cut(path, size):
    path.write_text(path.read_text()[:size].rpartition("\n")[0])


def replace(folder, before, after):
    text = (folder / "settings.toml").read_text()
    assert before in text
    (folder / "settings.toml").write_text(text.replace(before, after))


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
        (lambda f: (f / "transition.safetensors").unlink(), "is missing: PTD-F estimates T"),
        (lambda f: (f / "settings.toml").write_text(""), "settings.toml must hold all settings"),
        (lambda f: cut(f / "settings.toml", 1000), "settings.toml must hold all settings"),
        (lambda f: replace(f, "rate = 0.3", "rate = 7.0"), "settings.toml: rate must be"),
        (lambda f: replace(f, '"PTD-F"', '"PTD"'), "settings.toml: there is no method 'PTD'"),
        (lambda f: (f / "result.json").write_text("[" * 10**5), "result.json is damaged"),
        (lambda f: (f / "result.json").write_bytes(b"{" * 2**21), "result.json declares"),
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


def test_a_setting_that_an_earlier_version_did_not_have(folder):
    change_result(folder, version="0.0.1")
    replace(folder, "count_window", "# count_window")
    assert load_run(folder).settings.count_window == Settings().count_window


def forge(folder, changes=(), file="model.safetensors", kind=KIND, **about):
    """Write a file again, with a checksum that fits; None takes something out."""
    path = folder / file
    tensors, before = tensor_files.read(path, kind, ())
    tensors |= {n: c(tensors.get(n)) if callable(c) else c for n, c in dict(changes).items()}
    found = [{n: v for n, v in all_.items() if v is not None} for all_ in (tensors, before | about)]
    tensor_files.write(path, kind, *found)


WEIGHT = "network.fc.weight"
UNSCALED = {"mean": None, "std": None}


@pytest.mark.parametrize(
    ("changes", "about", "sentence"),
    [
        ({}, {"inputs": [2**40]}, r"at most 67,108,864 numbers; got \[1099511627776\]"),
        (
            UNSCALED,
            {"inputs": [2**26]},
            r"fc1.weight must be torch.float32 \[128, 67108864\]; it is .*8",
        ),
        ({}, {"inputs": [-8]}, r"inputs must be the shape .*got \[-8\]"),
        ({}, {"inputs": None}, "it lacks 'inputs'"),
        ({}, {"network": "resnet18"}, "resnet18 must get images"),
        ({}, {"network": 5}, "network must be one of linear, .*; got 5"),
        ({}, {"network": "os:abort"}, "a network of your own, os:abort"),
        ({}, {"classes": [0, 1, 2, 3, 4]}, r"fc.bias must be .*\[5\]; it is .*\[4\]"),
        ({}, {"classes": [0, 1, 1, 2]}, "classes must be at least two different"),
        ({}, {"classes": ["a" * 5000, *map(str, range(999))]}, "classes must have shorter names"),
        ({}, {"classes": [0, 1, 2, 2**70]}, "classes must be numbers of 64 bits"),
        ({}, {"bytes": "no"}, "bytes must be true or false; got 'no'"),
        ({}, {"tokens": True, "inputs": [1, 2, 4]}, r"inputs must be \[L\] for texts"),
        ({}, {"files": True}, r"inputs must be \[3, size, size\]"),
        ({WEIGHT: torch.Tensor.double}, {}, "fc.weight must be torch.float32 .* torch.float64"),
        ({WEIGHT: None}, {}, "it lacks network.fc.weight"),
        ({WEIGHT: lambda w: w / 0}, {}, "fc.weight must be finite"),
        ({"network.more": torch.ones(1)}, {}, "network.more is no tensor of its network"),
        ({"std": None}, {}, "mean and std must both be there"),
        ({"std": torch.zeros(8)}, {}, "std must be finite and positive"),
        ({"mean": torch.zeros(3)}, {}, r"mean must be floats \[8\]; it is torch.float32 \[3\]"),
    ],
)
def test_forged_models(folder, changes, about, sentence):
    """Refused by a sentence with the file's name, and without memory for what they name."""
    forge(folder, changes, **about)
    with pytest.raises(ValueError, match=rf"model\.safetensors.*{sentence}.*\.$"):
        load_run(folder)
    found = run_one(lambda: load_run(folder), memory=256 * MEGABYTE)
    assert found.kind == "sentence", found


def test_a_network_without_weights(folder):
    tensors, about = tensor_files.read(folder / "model.safetensors", KIND, ())
    tensor_files.write(
        folder / "model.safetensors", KIND, {"mean": tensors["mean"], "std": tensors["std"]}, about
    )
    with pytest.raises(ValueError, match="it lacks the weights of its network mlp"):
        load_run(folder)


@pytest.mark.parametrize(
    ("parts", "size", "sentence"),
    [
        (torch.eye(3).expand(2, 3, 3), 128, "be of 4 classes; it has 3"),
        (torch.eye(4).expand(2, 4, 4), 7, "weigh its parts by 128 features.*; it takes 7"),
        (torch.eye(4).expand(2, 4, 4), None, "weigh its parts by 128 features.*; it takes none"),
    ],
)
def test_a_transition_of_another_run(folder, parts, size, sentence):
    basis = None if size is None else torch.ones(2, size)
    PartTransition(parts, basis).save(folder / "transition.safetensors")
    with pytest.raises(ValueError, match=rf"transition\.safetensors must .*{sentence}"):
        load_run(folder)


@pytest.mark.parametrize("name", ["linear", "mlp", "lenet5", "resnet18", "news_conv"])
def test_every_network_comes_back(tmp_path, name):
    """Built without memory of its own, it gives what the network of the file gave."""
    embedding = torch.randn(6, 3) if name == "news_conv" else None
    shape = [8] if name in ("linear", "mlp", "news_conv") else [3, 32, 32]
    torch.manual_seed(0)
    network = networks.build(name, 4, inputs=shape, embedding=embedding).eval()
    about = {"network": name, "inputs": shape, "tokens": embedding is not None, "fingerprint": ""}
    about |= {"classes": list("abcd"), "files": False, "bytes": False}
    path = tmp_path / "model.safetensors"
    state = {f"network.{n}": t for n, t in network.state_dict().items()}
    tensor_files.write(path, KIND, state, about)
    model, _ = read_model(path)
    loaded, size = model.build("network", None)
    x = torch.randint(6, (2, 8)) if embedding is not None else torch.randn(2, *shape)
    with torch.no_grad():
        expected, found = network(x), loaded(x)
    assert size == expected[0].shape[1]
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not any(t.is_meta for t in (*loaded.parameters(), *loaded.buffers()))


def test_words_that_the_network_does_not_know(folder):
    torch.manual_seed(0)
    network = networks.build("news_conv", 4, inputs=[8], embedding=torch.randn(6, 3))
    _, about = tensor_files.read(folder / "model.safetensors", KIND, ())
    state = {f"network.{n}": t for n, t in network.state_dict().items()}
    state |= {f"feature_{n}": t for n, t in state.items()}
    tensor_files.write(
        folder / "model.safetensors", KIND, state, about | {"network": "news_conv", "tokens": True}
    )
    run = load_run(folder)
    assert run.predict(np.full((2, 8), 5)).shape == (2,)
    for x, sentence in (
        (np.full((2, 8), 6), "X must hold words 0 to 5; .*6"),
        (np.full((2, 8), -1), "X must hold words 0 to 5; .*-1"),
        (np.zeros((2, 8)), "X must hold the numbers of words; got float64"),
    ):
        with pytest.raises(ValueError, match=sentence):
            run.predict(x)


def test_damaged_findings(folder):
    flip(folder / "labels.safetensors")
    with pytest.raises(ValueError, match="do not have the checksum"):
        _ = load_run(folder).label_issues


@pytest.mark.parametrize(
    ("changes", "about", "sentence"),
    [
        ({"given": lambda t: t + 4}, {}, "given must be 0 to 3"),
        ({"suggested": lambda t: t - 4}, {}, "suggested must be 0 to 3"),
        ({"posterior": lambda t: t[:, :3]}, {}, r"posterior must be \[700, 4\] .*\[700, 3\]"),
        ({"is_label_issue": lambda t: t.long()}, {}, "is_label_issue must be .*torch.int64"),
        ({"transition": lambda t: t.half()}, {}, "transition must be .*torch.float16"),
        ({"rates": lambda t: t[:2]}, {}, r"rates must be \[5, 3\]"),
        ({"ids": lambda t: t[:9]}, {}, "ids must be of 700 rows; there are 9"),
        ({}, {"classes": [0, 1, "2", 3]}, "classes must be whole numbers or texts"),
        ({}, {"classes": None}, "it lacks 'classes'"),
        ({}, {"warnings": "none"}, "warnings must be a list of texts"),
        ({}, {"curves": {"loss": 3}}, "curves must be lists of numbers"),
        ({}, {"facts": []}, "facts must have names and values"),
    ],
)
def test_forged_findings(folder, changes, about, sentence):
    forge(folder, changes, "labels.safetensors", "label issues", **about)
    with pytest.raises(ValueError, match=rf"labels\.safetensors holds no usable .*{sentence}.*\.$"):
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
