"""`ptd-ext noise`: noisy labels in a file."""

import json

import pytest
import torch
from training_cases import flags, model_tensors, quick_values, write_clusters

from ptd_ext.cli import main
from ptd_ext.noise import LabelNoise

pytest.importorskip("sklearn")


@pytest.fixture
def clusters(tmp_path):
    return write_clusters(tmp_path / "clusters.npz")


def test_noise_is_a_file_that_training_takes(clusters, tmp_path, capsys):
    path = tmp_path / "noise.safetensors"
    chosen = {"dataset": "npz", "data": clusters, "noise": "instance", "rate": 0.3, "seed": 5}
    chosen = flags(chosen)
    main(["noise", *chosen, "--out", str(path)])
    printed = capsys.readouterr().out
    assert "of 700 labels are wrong" in printed
    lines = printed.splitlines()
    first = lines.index("percentage of each class (row) by its noisy label (column):") + 1
    table = torch.tensor([[float(share) for share in line.split()] for line in lines[first:-1]])
    assert (table.sum(1) - 100).abs().max() <= 2
    assert (table.diagonal() > 50).all()
    noise = LabelNoise.load(path)
    runs = {"file": {"noise_file": path}, "made": {"noise": "instance"}}
    for name, how in runs.items():
        given = quick_values(clusters, "CE", seed=5, **how)
        main(["train", *flags(given), "--out", str(tmp_path / name)])
    networks = [model_tensors(tmp_path / n) for n in runs]
    assert all(torch.equal(a, b) for a, b in zip(*(n.values() for n in networks), strict=True))
    assert noise.realised_rate == pytest.approx(
        json.loads((tmp_path / "file" / "result.json").read_text())["realised_rate"]
    )
    with pytest.raises(SystemExit):
        main(["noise", *chosen, "--out", str(path)])
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_noise_must_be_of_some_kind(clusters, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["noise", "--dataset", "npz", "--data", str(clusters), "--out", str(tmp_path / "n")])
    shown_text = capsys.readouterr().err
    assert "--noise must be one of instance, symmetric, pairwise; got none." in shown_text
    assert not (tmp_path / "n").exists()
