"""`ptd-ext compare`: several methods on the same noisy data."""

import json
import re

import pytest
from training_cases import flags, quick_values, write_clusters

from ptd_ext.cli import main

pytest.importorskip("sklearn")


@pytest.fixture
def clusters(tmp_path):
    return write_clusters(tmp_path / "clusters.npz")


def test_compare_goes_on_where_it_was(clusters, tmp_path, capsys, monkeypatch):
    arguments = flags(
        {k: v for k, v in quick_values(clusters, "PTD-F").items() if k not in ("method", "seed")}
    )
    command = ["compare", "--methods", "CE", "PTD-F", "--seeds", "2", *arguments]
    main([*command, "--out", str(tmp_path / "out")])
    first = capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*/*/result.json"))) == 4
    from ptd_ext.engine.training import train_step

    monkeypatch.setattr(train_step.TrainStep, "step", None)
    main([*command, "--out", str(tmp_path / "out")])
    table = first[first.index("clean test accuracy") :]
    assert capsys.readouterr().out.strip() == table.strip()


def test_the_table_has_mean_and_deviation_over_seeds(clusters, tmp_path, capsys):
    given = quick_values(clusters, "CE", epochs=1)
    del given["method"]
    out = tmp_path / "out"
    main(["compare", "--methods", "CE", "--seeds", "2", *flags(given), "--out", str(out)])
    first, second = (
        json.loads((out / "CE" / seed / "result.json").read_text())["test_accuracy"]
        for seed in "01"
    )
    mean, deviation = (first + second) / 2, abs(first - second) / 2**0.5
    (line,) = re.findall("^CE .*±.*", capsys.readouterr().out, re.M)
    assert f" {mean:.2f} ± {deviation:.2f} % " in line


def test_seeds_are_counted(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--seeds", "0"])
    assert "--seeds must be at least 1; got 0." in capsys.readouterr().err
