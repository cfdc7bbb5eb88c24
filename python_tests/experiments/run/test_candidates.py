"""Which networks an experiment tries, once its data are known."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training_cases import CPU, quick_values, write_clusters

from ptd_ext import PTDClassifier, TrainedRun
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.run.candidates import candidate_settings
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.toml import read_config


def candidates(given):
    found = candidate_settings(given, load_problem(resolve(given, {})))
    return [settings.network for settings in found]


@pytest.fixture
def own(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.eye(40), y=np.arange(40) % 2)
    return {"dataset": "npz", "data": str(tmp_path / "own.npz"), "method": "CE", "noise": "none"}


def of_size(samples, shape, user_data=True):
    """What choosing the candidates needs to know of a problem."""
    data = SimpleNamespace(train_size=samples, sample_shape=torch.Size(shape))
    return SimpleNamespace(data=data, is_user_data=user_data)


@pytest.mark.parametrize(
    ("shape", "network"),
    [
        ((8,), "linear"),
        ((1, 8, 8), "linear"),
        ((1, 28, 28), "lenet5"),
        ((3, 64, 64), "resnet18"),
    ],
)
def test_user_data_have_a_schedule_for_their_size_and_kind(shape, network):
    few, many = (candidate_settings({"dataset": "npz"}, of_size(n, shape))[0] for n in (100, 10**6))
    assert few.network == many.network == network
    assert (few.epochs, many.epochs) == (100, 10)
    assert (few.batch_size, many.batch_size) == (16, 512)
    assert (few.optimiser, few.select, few.noise) == ("adam", "likelihood", "none")
    assert few.warm_up_epochs == few.epochs
    assert few.count_rate == ("validation" if network == "linear" else "between")


def test_given_settings_replace_those_that_suit_the_size():
    def first(**given):
        return candidate_settings({"dataset": "npz", **given}, of_size(1000, (8,)))[0]

    assert first(network="mlp").network == "mlp"
    asked = first(epochs=7, batch_size=5)
    assert (asked.epochs, asked.warm_up_epochs, asked.batch_size) == (7, 7, 5)
    # A given learning rate is for the preset's optimiser, not for another one.
    asked = first(lr=0.05)
    assert (asked.lr, asked.optimiser, asked.schedule) == (0.05, "sgd", "steps")
    assert (asked.count_base, asked.count_rate) == ("anchors", "between")
    paper = first(preset="paper")
    assert (paper.epochs, paper.optimiser) == (100, "sgd")
    published = {"dataset": "mnist"}
    assert candidate_settings(published, of_size(60000, (1, 28, 28), user_data=False)) == [
        resolve(published, {})
    ]


def test_large_images_are_not_trained_on_from_scratch_unasked():
    folder, large = {"dataset": "image_folder"}, of_size(1000, (3, 224, 224))
    with pytest.raises(ValueError, match=r"network must be given for images of 224.*--image-size"):
        candidate_settings(folder, large)
    with pytest.raises(ValueError, match="network must be given together with network_weights"):
        candidate_settings({**folder, "network_weights": "w.pt"}, large)
    (found,) = candidate_settings({**folder, "network": "resnet50"}, large)
    assert found.network == "resnet50"


@pytest.mark.parametrize("method", ["PTD-L", "Forward", "T-Revision", "EM-F"])
@pytest.mark.parametrize("shape", [(8,), (1, 28, 28)])
def test_both_doors_train_with_the_same_settings(method, shape):
    given = {"dataset": "npz", "method": method, "seed": 3}
    trained = [each.for_training(None) for each in candidate_settings(given, of_size(500, shape))]
    model = PTDClassifier(method)
    judged = model._candidates(500, torch.Size(shape), seed=3)
    entries = Settings.entries()
    for one, other in zip(trained, judged, strict=True):
        different = {n for n in entries if getattr(one, n) != getattr(other, n)}
        # These presets are for a schedule of steps and for Co-teaching+.
        unused = {"milestones", "disagreement_free_steps"}
        assert {n for n in different if entries[n].section != "run"} <= unused


def test_tables_have_a_linear_network_and_a_larger_one(own):
    assert candidates(own) == ["linear", "mlp"]
    assert candidates({**own, "network": "auto"}) == ["linear", "mlp"]


def test_a_named_network_is_the_only_one(own):
    assert candidates({**own, "network": "mlp"}) == ["mlp"]


def test_published_data_have_the_network_of_the_preset():
    pytest.importorskip("sklearn")
    assert len(candidates({"dataset": "digits", "method": "CE"})) == 1


def test_candidates_differ_in_their_network_alone(tmp_path):
    given = quick_values(write_clusters(tmp_path / "c.npz"), "PTD-F")
    del given["network"]
    linear, mlp = candidate_settings(given, load_problem(resolve(given, {})))
    assert linear.epochs == mlp.epochs == given["epochs"]
    assert linear.lr == mlp.lr == given["lr"]


def test_the_file_of_settings_has_each_network_train_by_its_own_schedule(tmp_path):
    path = write_clusters(tmp_path / "c.npz")
    given = {"dataset": "npz", "data": str(path), "method": "CE", "epochs": 1, "progress": False}
    given |= {"threads": 1}
    problem = load_problem(resolve(given, {}))
    settings = candidate_settings(given, problem)
    assert settings[0].lr != settings[1].lr
    train(settings, tmp_path / "run", CPU, problem)
    run = TrainedRun.load(tmp_path / "run")
    run.save(tmp_path / "saved")
    for folder in ("run", "saved"):
        assert candidate_settings(read_config(tmp_path / folder / "settings.toml"), problem) == (
            settings
        )


def test_the_network_that_explains_held_out_labels_is_kept(tmp_path):
    """The label is the sign of a product, of which a linear network learns nothing."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1200, 2))
    y = (x[:, 0] * x[:, 1] > 0) ^ (generator.random(1200) < 0.1)
    np.savez(tmp_path / "own.npz", x=x, y=y.astype(int))
    given = {"dataset": "npz", "data": str(tmp_path / "own.npz"), "method": "CE", "threads": 1}
    given |= {"epochs": 25, "progress": False, "noise": "none"}
    problem = load_problem(resolve(given, {}))
    settings = candidate_settings(given, problem)
    result = train(settings, tmp_path / "run", CPU, problem)
    assert (result["network"], result["networks"]) == ("auto", "mlp")
    # A finished run is returned, without another trial.
    assert train(settings, tmp_path / "run", CPU, problem, resume=True) == result
