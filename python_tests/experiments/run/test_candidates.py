"""Which networks an experiment tries, once its data are known."""

import numpy as np
import pytest
from training_cases import CPU, quick_values, write_clusters

from ptd_ext import TrainedRun
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
