"""fit: which networks are kept, how they are validated, and what it leaves alone."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training_cases import CPU

from ptd_ext.engine.model import fit as fitting
from ptd_ext.engine.model.fit import _chosen, _few_rows_beat_chance, fit
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import split_data
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.logger import Log
from ptd_ext.engine.training.signals import Stopped
from ptd_ext.engine.training.trainer import Trainer


def data_of(rows, labels, held_out):
    preprocessing, stored = Preprocessing.fit(rows)
    names = tuple(map(str, range(int(labels.max()) + 1)))
    count = len(labels) - held_out
    positions = torch.arange(count), torch.arange(count, len(labels))
    return split_data(stored, labels, names, preprocessing, positions)


@pytest.fixture
def data():
    """Sixty rows that determine their labels, in random order."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (60,), generator=generator)
    rows = torch.randn(60, 4, generator=generator) + 4 * torch.eye(3, 4)[labels]
    return data_of(rows, labels, 20)


QUICK = {"epochs": 3, "warm_up_epochs": 3, "milestones": (), "n_parts": 2, "batch_size": 16}
QUICK |= {"pred_probs_epochs": 2, "progress": False, "lr": 0.05, "threads": 1}


def settings_of(method="PTD-F", network="linear", **changes):
    if method in ("EM-F", "Forward", "CE"):
        changes = {"n_parts": 1, **changes}
    return Settings(**{**QUICK, "method": method, "network": network, **changes})


def trained(likelihood):
    return SimpleNamespace(likelihood=torch.as_tensor(likelihood))


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(-0.01, [0]), (0.05, [1, 0]), (0.5, [1])],
    ids=["worse", "a little better", "much better"],
)
def test_a_larger_network_joins_or_replaces_the_smaller(gain, expected):
    first = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    found = [trained(first), trained(first + gain)]
    assert _chosen(found) == [found[position] for position in expected]


def test_a_gain_that_may_be_chance_replaces_nothing():
    gain = torch.tensor([8.0] + [-0.5] * 9)  # a mean of 0.35 and a standard error of 0.81
    found = [trained(torch.zeros(10)), trained(gain)]
    assert _chosen(found) == [found[1], found[0]]


def test_the_best_network_comes_first_and_validates(data, monkeypatch):
    monkeypatch.setattr(fitting, "_chosen", lambda found: found[::-1])  # both
    candidates = [settings_of(network=name) for name in ("linear", "mlp")]
    model = fit(data, candidates, np.array(list("abc")), CPU)
    assert model.network_name == "mlp and linear"
    alone = fit(data, candidates[1:], np.array(list("abc")), CPU)
    assert model.validation == alone.validation
    assert model.curves == alone.curves
    assert model.fingerprint == data.fingerprint()
    rows = data.train.fetch(torch.arange(5), CPU.device)
    rows = data.train.preprocessing.undo(rows)
    np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1)
    np.testing.assert_allclose(model.transition(rows).sum(2), 1, atol=1e-6)


def test_the_validation_is_of_rows_that_were_not_trained_on(data):
    found = fit(data, [settings_of("EM-F", epochs=15, warm_up_epochs=15)], np.arange(3), CPU)
    assert found.validation.rows == 20
    assert found.validation.accuracy > 0.8
    assert found.validation.beats_chance
    assert found.validation.warning == ""
    assert found.outcome.best.epoch >= 1
    assert list(found.curves) == ["noisy validation accuracy, per cent", "training loss"]
    assert [len(values) for values in found.curves.values()] == [30, 30]


def test_a_model_no_better_than_chance_is_reported():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (200,), generator=generator)
    noise = data_of(torch.randn(200, 3, generator=generator), labels, 60)
    found = fit(noise, [settings_of("EM-F")], np.arange(2), CPU).validation
    assert not found.beats_chance
    assert "no better than chance" in found.warning


class LeastSquares:
    """A member that has learned the labels as far as a linear network can."""

    def __init__(self, data, learned=True):
        rows = data.train.fetch(torch.arange(len(data.train)), CPU.device)
        targets = torch.nn.functional.one_hot(data.train_labels).float()
        self.matrix = torch.linalg.lstsq(rows, targets).solution * learned
        self.member = self

    def logits(self, inputs):
        return inputs.fetch(torch.arange(len(inputs)), CPU.device) @ self.matrix


def test_labels_of_few_rows_that_follow_them_are_better_than_chance(data, monkeypatch):
    """All rows count, in the order of their labels; no network passes by chance."""
    network = LeastSquares(data)
    assert _few_rows_beat_chance(data, [network])
    assert not _few_rows_beat_chance(data, [LeastSquares(data, learned=False)])
    labels = {name: getattr(data, name).flip(0) for name in ("train_labels", "validation_labels")}
    assert not _few_rows_beat_chance(dataclasses.replace(data, **labels), [network])
    monkeypatch.setattr(fitting, "FEW_ROWS", 59)
    assert not _few_rows_beat_chance(data, [network])


def test_accuracy_is_not_the_best_of_many_epochs():
    """That would be above chance by chance."""
    generator = torch.Generator().manual_seed(2)
    data = data_of(torch.randn(60, 3, generator=generator), torch.arange(60) % 2, 20)
    log, state = Log(quiet=True), torch.get_rng_state()
    found = fit(
        data,
        [settings_of("PTD-L", warm_up_epochs=6, select="likelihood")],
        np.arange(2),
        CPU,
        log=log,
    )
    assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers go on"
    records = [record for record in log.records if record["stage"] == "warm up"]
    assert len(records) == 6
    best = max(records, key=lambda record: record["validation_likelihood"])
    assert found.validation.accuracy == pytest.approx(best["validation_accuracy"] / 100)
    assert 100 * found.validation.accuracy < max(r["validation_accuracy"] for r in records) - 4


def test_all_candidates_are_checked_before_the_first_is_trained(data, tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "train", None)
    bad = settings_of("EM-F", "mlp", class_prior="0.5,0.5")
    begun, candidates = [], [settings_of("EM-F"), bad]
    options = {"out": tmp_path / "out", "begin": lambda: begun.append(1)}
    with pytest.raises(ValueError, match="class_prior must have 3 shares"):
        fit(data, candidates, np.arange(3), CPU, **options)
    assert not begun
    assert not (tmp_path / "out").exists()


def test_each_candidate_has_a_folder_of_its_own(data, tmp_path):
    candidates = [settings_of("CE", network=name, epochs=1) for name in ("linear", "mlp")]
    begun = []
    fit(data, candidates, np.arange(3), CPU, out=tmp_path, begin=lambda: begun.append(1))
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {
        f"{n}/{f}" for n in ("linear", "mlp") for f in ("checkpoint.pt", "metrics.jsonl")
    }
    assert len(begun) == 1


def test_a_stop_without_a_folder_is_a_keyboard_interrupt(data, tmp_path, monkeypatch):
    """What has not been saved cannot be continued."""

    def stopped(*_, **__):
        raise Stopped(15)

    monkeypatch.setattr(Trainer, "train", stopped)
    for out, error in ((None, KeyboardInterrupt), (tmp_path / "run", Stopped)):
        with pytest.raises(error):
            fit(data, [settings_of("CE")], np.arange(3), CPU, out=out)


def test_tables_are_predicted_in_double_precision(data):
    """So that a row's result hardly depends on its batch."""
    member = fit(data, [settings_of()], np.arange(3), CPU).members[0]
    assert next(member.network.parameters()).dtype == torch.float64
    assert member.part_transition.parts.dtype == torch.float64


def test_the_time_of_training_is_that_of_all_candidates(data, monkeypatch):
    spent = iter([3.0, 4.0])
    train = Trainer.train

    def timed(trainer, **options):
        train(trainer, **options)
        trainer.seconds = next(spent)

    monkeypatch.setattr(Trainer, "train", timed)
    candidates = [settings_of(network="linear"), settings_of(network="mlp")]
    model = fit(data, candidates, np.arange(3), CPU)
    assert model.outcome.seconds == 7.0
