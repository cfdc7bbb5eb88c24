"""Checkpoints: written atomically, of these settings and data, without code."""

import pytest
import torch

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training import checkpoint


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.pt"


def test_state_comes_back(path):
    state = {"epoch": 3, "networks": [{"weight": torch.arange(4.0)}], "best": None}
    checkpoint.save(path, "run", state)
    found = checkpoint.load(path, "run")
    assert found["networks"][0]["weight"].tolist() == [0, 1, 2, 3]
    assert (found["epoch"], found["best"]) == (3, None)


def test_a_checkpoint_of_another_version_is_rejected(path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "_FORMAT", 3)
        checkpoint.save(path, "run", {})
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt was written by another version of ptd_ext"
    ):
        checkpoint.load(path, "run")


def test_a_checkpoint_of_another_run_is_rejected(path):
    checkpoint.save(path, "run", {})
    with pytest.raises(ValueError, match="belongs to a run with other settings or data"):
        checkpoint.load(path, "other")


class Code:
    def __reduce__(self):
        return print, ("run",)


def test_code_in_a_checkpoint_is_not_run(path, capsys):
    checkpoint.save(path, "run", {"x": Code()})
    with pytest.raises(ValueError, match="damaged or not a checkpoint of ptd_ext"):
        checkpoint.load(path, "run")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:100] + b"x" + content[101:],
        lambda content: content + b"x",
    ],
)
def test_damage_is_reported(path, damage):
    checkpoint.save(path, "run", {"x": torch.zeros(100)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"does not end with the checksum .*Restore a copy"):
        checkpoint.load(path, "run")


def test_the_digest_is_of_settings_that_the_result_depends_on():
    first = checkpoint.digest(Settings())
    assert checkpoint.digest(Settings(threads=3, progress=False)) == first
    assert checkpoint.digest(Settings(lr=0.5)) != first
    assert checkpoint.digest(Settings(lr=0.5), {"lr"}) == checkpoint.digest(Settings(), {"lr"})


def test_generators_go_back():
    state = checkpoint.rng_state()
    first = torch.rand(3)
    checkpoint.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)
