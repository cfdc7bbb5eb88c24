"""Weights of files: complete, of the right shapes, and without code."""

import pytest
import torch

from ptd_ext.engine.networks import build
from ptd_ext.engine.networks.weights import load_weights, read_weights


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_weights(tmp_path, ending):
    from safetensors.torch import save_file

    trained = build("resnet18", 1000, inputs=(3, 32, 32))
    path = tmp_path / f"weights.{ending}"
    save = save_file if ending == "safetensors" else torch.save
    save(trained.state_dict(), path)
    same = build("resnet18", 1000, inputs=(3, 32, 32), weights=path)
    other = build("resnet18", 14, inputs=(3, 32, 32), weights=path)
    for name, value in trained.state_dict().items():
        assert torch.equal(same.state_dict()[name], value)
        assert name.startswith("fc.") or torch.equal(other.state_dict()[name], value)
    assert other.fc.weight.shape == (14, 512)


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_wrong_weights(tmp_path, capsys):
    path = tmp_path / "weights.pth"

    def load():
        return build("mlp", 3, inputs=(4,), weights=path)

    with pytest.raises(FileNotFoundError, match="is not a file"):
        load()
    path.write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"is rejected|is cut off"):
        load()
    torch.save({"fc.weight": Evil()}, path)
    with pytest.raises(ValueError, match=r"rejected: it asks for .*print"):
        load()
    assert capsys.readouterr().out == ""
    torch.save({"epoch": 3}, path)
    with pytest.raises(ValueError, match="must hold a state dict"):
        load()
    torch.save(build("lenet5", 3, inputs=(1, 28, 28)).state_dict(), path)
    with pytest.raises(ValueError, match=r"weights of this MLP; conv1.bias is not one of them"):
        load()
    torch.save({"fc1.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"fc.bias is missing .5 missing, 0 unknown of 6"):
        load()
    torch.save(build("mlp", 3, inputs=(5,)).state_dict(), path)
    with pytest.raises(ValueError, match=r"fc1.weight must be \[128, 4\], got \[128, 5\]"):
        load()


def test_counters_of_batches_may_be_missing(tmp_path):
    network = build("resnet18", 3, inputs=(3, 32, 32))
    state = {n: t for n, t in network.state_dict().items() if "num_batches" not in n}
    torch.save(state, tmp_path / "old.pth")
    assert read_weights(tmp_path / "old.pth").keys() == state.keys()
    load_weights(network, tmp_path / "old.pth")
