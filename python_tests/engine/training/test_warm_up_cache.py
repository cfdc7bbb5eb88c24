"""The cache of warm-ups: shared by methods that have the same one."""

import pytest
import torch

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.state import BestModel, Scores, StageOutputs
from ptd_ext.engine.training.warm_up_cache import WarmUpCache


def cache(folder, fingerprint="data", **settings):
    return WarmUpCache(Settings(warm_up_cache=str(folder), **settings), fingerprint)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"method": "Forward", "n_parts": 1}, True),
        ({"epochs": 7}, True),
        ({"anchor_count": 7}, True),
        ({"threads": 2}, True),
        ({"warm_up_epochs": 7}, False),
        ({"lr": 0.5}, False),
        ({"seed": 1}, False),
        ({"network": "mlp"}, False),
        ({"fingerprint": "other"}, False),
    ],
)
def test_a_file_is_named_by_all_that_the_warm_up_depends_on(tmp_path, changes, same):
    first = cache(tmp_path, method="PTD-F")
    assert (cache(tmp_path, **{"method": "PTD-F", **changes}).path == first.path) is same


def test_a_warm_up_comes_back(tmp_path):
    found = cache(tmp_path / "cache")
    found.open()
    assert found.read(torch.device("cpu")) is None
    best = BestModel(Scores(1, 0.5, 50.0, -1.0, {}), {"weight": torch.ones(2)}, {})
    records = [{"stage": "warm up", "epoch": 1, "loss": 0.5}]
    found.write(StageOutputs(pred_probs=torch.eye(2)), best, records)
    again = cache(tmp_path / "cache").read(torch.device("cpu"))
    assert torch.equal(again.outputs.pred_probs, torch.eye(2))
    assert again.best.scores == best.scores
    assert again.records == records


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = WarmUpCache(Settings(), "data")
    found.open()
    found.write(StageOutputs(), BestModel(Scores(1, 0.5, 50.0, -1.0, {}), {}, {}), [])
    assert found.read(torch.device("cpu")) is None
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(ValueError, match="warm_up_cache must be a folder, or one that can be made"):
        cache(tmp_path / "cache").open()
