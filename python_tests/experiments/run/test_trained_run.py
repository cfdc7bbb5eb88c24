"""TrainedRun: a finished run predicts, and folders without one are rejected."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext import TrainedRun
from ptd_ext.experiments.datasets.problem import load_data
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.run.experiment_folder import checksums
from ptd_ext.experiments.settings import ExperimentSettings


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
    run = TrainedRun.load(str(finished))
    held = np.load(clusters)
    accuracy = 100 * (run.predict(held["x_test"]) == held["y_test"]).mean()
    assert accuracy == pytest.approx(run.result["test_accuracy"])
    assert run.classes.tolist() == [0, 1, 2, 3]
    tensors = run.predict_proba(torch.from_numpy(held["x_test"]))
    np.testing.assert_array_equal(tensors, run.predict_proba(held["x_test"].tolist()))
    assert len(run.label_issues) == 700


def test_integer_labels_stay_integers(tmp_path):
    rows = np.load(write_clusters(tmp_path / "clusters.npz"))
    given = 2 * rows["y"].astype(np.int64) - 1
    np.savez(tmp_path / "odd.npz", x=rows["x"], y=given)
    settings = quick_settings(tmp_path / "odd.npz", "Forward", noise="none")
    train(settings, tmp_path / "run", CPU)
    run = TrainedRun.load(tmp_path / "run")
    assert run.classes.tolist() == [-1, 1, 3, 5]
    assert (run.predict(rows["x"]) == given).mean() > 0.5
    assert len(run.model.judge(rows["x"], given).posterior) == len(given)


def test_texts_are_given_as_to_training(tmp_path):
    """Texts of more words than they have columns in the network."""
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(1400)])
    labels = np.arange(300) % 2
    texts = [
        " ".join(generator.choice(words[700 * label : 700 * label + 700], 40)) for label in labels
    ]
    pandas.DataFrame({"text": texts, "y": labels}).to_csv(tmp_path / "d.csv", index=False)
    settings = quick_settings(
        tmp_path / "d.csv", "Forward", dataset="table", label="y", text="text", noise="none"
    )
    result = train(settings, tmp_path / "run", CPU)
    run, dataset = TrainedRun.load(tmp_path / "run"), load_data(settings)
    (column,) = run.model.preprocessing.columns.entries
    assert column.width < len(column.words.words)
    rows = dataset.test_inputs
    accuracy = (run.predict_proba(rows).argmax(1) == dataset.test_labels.numpy()).mean()
    assert 100 * accuracy == pytest.approx(result["test_accuracy"])
    with pytest.raises(TypeError, match="X must be texts, as in fit; got ndarray"):
        run.predict(np.ones((2, 5)))


@pytest.mark.parametrize("method", ["Forward", "T-Revision", "PTD-R-V", "EM-F", "PTD-L"])
def test_every_kind_of_transition(clusters, tmp_path, method):
    train(quick_settings(clusters, method), tmp_path / "run", CPU)
    run = TrainedRun.load(tmp_path / "run")
    x = np.load(clusters)["x"][:50]
    matrices = run.transition(x)
    assert matrices.shape == (50, 4, 4)
    np.testing.assert_allclose(matrices.sum(2), 1, rtol=1e-5)
    assert len(run.label_issues) == 700


def test_a_method_without_transition(clusters, tmp_path):
    train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)
    run = TrainedRun.load(tmp_path / "run")
    assert run.predict(np.load(clusters)["x"]).shape == (700,)
    with pytest.raises(ValueError, match=r"The method estimates no T\(x\)"):
        run.transition(np.zeros((1, 8)))
    with pytest.raises(ValueError, match="a run of CE, which estimates no T"):
        _ = run.label_issues


def test_bytes_and_floats_are_told_apart(tmp_path):
    images = np.random.default_rng(0).integers(256, size=(60, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=images, y=np.arange(60) % 2)
    settings = quick_settings(tmp_path / "images.npz", "CE", network="lenet5")
    train(settings, tmp_path / "run", CPU)
    run = TrainedRun.load(tmp_path / "run")
    assert run.predict(images).shape == (60,)
    with pytest.raises(ValueError, match="X must be images of uint8"):
        run.predict(images.astype(np.float32))
    with pytest.raises(ValueError, match=r"images of shape \[1, 12, 12\].*got \[1, 10, 12\]"):
        run.predict(images[:, :10])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 7)), r"rows of 8, as in fit; got \[2, 7\]"),
        (np.full((2, 8), np.nan), "X contains NaN"),
        (np.zeros((0, 8)), "minimum of 1 is required"),
        (np.array([["a"] * 8]), "could not convert string to float"),
    ],
)
def test_samples_that_do_not_fit(finished, x, message):
    with pytest.raises(ValueError, match=message):
        TrainedRun.load(finished).predict(x)


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


def forge(folder, before, after):
    replace(folder, before, after)
    change_result(folder, sha256=checksums(folder, ["settings.toml", "model.safetensors"]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: shutil.rmtree(f), "is not a folder"),
        (lambda f: (f / "settings.toml").unlink(), "holds no run of `ptd-ext train`"),
        (lambda f: (f / "result.json").unlink(), "not finished.*Continue it with.*--resume"),
        (lambda f: (f / "result.json").write_text("{"), "damaged: it is not JSON"),
        (lambda f: (f / "result.json").write_text("[]"), "must hold the result of a run"),
        (lambda f: change_result(f, sha256={}), "settings.toml is not the file that was written"),
        (lambda f: change_result(f, sha256=None), "result of an earlier version"),
        (lambda f: (f / "model.safetensors").unlink(), "earlier version of ptd_ext"),
        (lambda f: flip(f / "model.safetensors"), "model.safetensors is not the file"),
        (lambda f: replace(f, '"PTD-F"', '"PTD-R"'), "settings.toml is not the file"),
        (lambda f: (f / "settings.toml").write_text(""), "settings.toml is not the file"),
        (lambda f: cut(f / "settings.toml", 1000), "settings.toml is not the file"),
        (lambda f: forge(f, "rate = 0.3", "rate = 7.0"), "settings.toml: rate must be"),
        (lambda f: forge(f, '"PTD-F"', '"PTD"'), "settings.toml: there is no method 'PTD'"),
        (lambda f: (f / "result.json").write_text("[" * 10**5), "result.json is damaged"),
        (lambda f: (f / "result.json").write_bytes(b"{" * 2**21), "result.json declares"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04N."), "model.safetensors"),
        (
            lambda f: shutil.copy(f / "labels.safetensors", f / "model.safetensors"),
            "model.safetensors is not the file",
        ),
    ],
)
def test_folders_without_a_finished_run(folder, damage, message):
    damage(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        TrainedRun.load(folder)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run with the same settings, on other data of the same shape."""
    data = write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz", seed=1)
    out = tmp_path_factory.mktemp("runs") / "other"
    train(quick_settings(data, "PTD-F", epochs=5), out, CPU)
    return out


@pytest.mark.parametrize("name", ["settings.toml", "model.safetensors", "labels.safetensors"])
def test_files_of_a_run_on_other_data_are_rejected(folder, other, name):
    assert len(TrainedRun.load(folder).label_issues) == 700
    shutil.copy(other / name, folder / name)
    with pytest.raises(ValueError, match=f"{name} is not the file that was written with the res"):
        _ = TrainedRun.load(folder).label_issues


def test_the_checksums_of_a_saved_copy_are_its_own(folder, other, tmp_path):
    TrainedRun.load(folder).save(tmp_path / "saved")
    assert len(TrainedRun.load(tmp_path / "saved").label_issues) == 700
    shutil.copy(other / "result.json", tmp_path / "saved")
    with pytest.raises(ValueError, match=r"settings.toml is not the file"):
        TrainedRun.load(tmp_path / "saved")


def test_a_setting_that_an_earlier_version_did_not_have(folder):
    forge(folder, "count_window", "# count_window")
    assert TrainedRun.load(folder).settings.count_window == ExperimentSettings().count_window


def test_a_run_of_an_earlier_version_is_rejected(clusters, folder):
    result = json.loads((folder / "result.json").read_text())
    del result["sha256"]
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(ValueError, match=r"result.json is the result of an earlier version"):
        TrainedRun.load(folder)
    with pytest.raises(ValueError, match="Train again in another folder"):
        train(quick_settings(clusters, "PTD-F", epochs=5), folder, CPU, resume=True)


def test_damaged_findings(folder):
    flip(folder / "labels.safetensors")
    with pytest.raises(ValueError, match=r"labels.safetensors is not the file"):
        _ = TrainedRun.load(folder).label_issues


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
    with pytest.raises(ValueError, match="give that name, or the function, as network"):
        TrainedRun.load(tmp_path / "run")
    run = TrainedRun.load(tmp_path / "run", network=Own)
    assert run.predict(np.zeros((3, 8))).shape == (3,)
