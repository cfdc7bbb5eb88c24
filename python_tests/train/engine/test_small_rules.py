"""Rules of the engine that no run of a test depends on."""

import io
import json
from types import SimpleNamespace

import pytest
import torch
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext.train.commands.train import _begun
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.problem import load_problem
from ptd_ext.train.engine.experiment import train
from ptd_ext.train.engine.logger import Log
from ptd_ext.train.engine.model_selection import validate
from ptd_ext.train.engine.placement import Placement
from ptd_ext.utils.distributed import Ranks


def test_a_log_speaks_unless_it_is_quiet():
    for options, said in (({}, "a line\n"), ({"quiet": True}, "")):
        stream = io.StringIO()
        Log(stream=stream, **options).say("a line")
        assert stream.getvalue() == said


def test_a_label_that_is_ruled_out_leaves_a_likelihood():
    """Models are compared by it, and two infinities are equal."""
    posterior = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    problem = SimpleNamespace(
        validation_labels=torch.tensor([0, 1]), test_labels=torch.tensor([0, 1])
    )
    context = SimpleNamespace(
        problem=problem,
        outputs=SimpleNamespace(transition=None),
        networks=[None],
        predict=lambda network, split: SimpleNamespace(logits=posterior),
        settings=SimpleNamespace(select="likelihood"),
    )
    stage = SimpleNamespace(noisy_posterior=lambda logits, weights: logits)
    scores, _ = validate(context, stage, 0)
    assert scores.validation_likelihood == pytest.approx(torch.tensor(1e-30).log().item() / 2)
    assert scores.validation_accuracy == 50


def test_a_problem_moves_its_labels_and_if_it_fits_its_samples(tmp_path):
    problem = load_problem(quick_settings(write_clusters(tmp_path / "clusters.npz"), "CE"))
    meta = torch.device("meta")
    for resident in (False, True):
        moved = problem.to(meta, resident)
        assert moved.train_labels.device == moved.test_labels.device == meta
        assert (moved.train.stored.device == meta) is resident
        assert problem.train.stored.device.type == "cpu"


def test_the_loss_of_an_epoch_is_that_of_its_samples(tmp_path):
    """An untrained network knows nothing of four classes, and a trained one more."""
    data = write_clusters(tmp_path / "clusters.npz")
    train(quick_settings(data, "CE", noise="none", epochs=4), tmp_path / "run", CPU)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert 0.2 < losses[0] < 1.5
    assert 0 < losses[-1] < losses[0]


def test_who_writes_the_settings_of_a_command(tmp_path):
    """The first rank, unless a run has begun or is resumed."""
    given, device = {"lr": 0.25}, torch.device("cpu")
    first, second = (Placement(device, Ranks(rank, 2)) for rank in (0, 1))
    path = tmp_path / "given.toml"
    for resume in (False, True):
        with _begun(tmp_path, ["run"], given, resume, second):
            assert not path.exists()
    # A run that resumes writes them if there are none, a new one over those of one that was killed.
    for written, resume in (({"lr": 0.5}, True), (given, False)):
        with _begun(tmp_path, ["run"], written, resume, first):
            assert read_config(path) == written
    with _begun(tmp_path, ["run"], {"lr": 0.5}, True, first):
        assert read_config(path) == given
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml").touch()
    with _begun(tmp_path, ["run"], {"lr": 0.5}, False, first):
        assert read_config(path) == given
    with pytest.raises(ValueError, match="begun"), _begun(tmp_path, ["run"], given, False, first):
        raise ValueError("begun")
    assert path.exists()
