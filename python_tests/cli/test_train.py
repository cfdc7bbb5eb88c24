"""`ptd-ext train`: which settings a folder keeps, and what is checked before any training."""

import csv

import numpy as np
import pytest
import torch
from training_cases import flags, quick_values, write_clusters

from ptd_ext.cli import main
from ptd_ext.cli.train import _given_settings
from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments.toml import read_config
from ptd_ext.utils.distributed import Ranks


def test_who_writes_the_settings_of_a_command(tmp_path):
    """The first rank, unless a run has begun or is resumed."""
    given, device = {"lr": 0.25}, torch.device("cpu")
    first, second = (Placement(device, Ranks(rank, 2)) for rank in (0, 1))
    path = tmp_path / "given.toml"
    for resume in (False, True):
        with _given_settings(tmp_path, ["run"], given, resume, second):
            assert not path.exists()
    # A run that resumes writes them if there are none, a new one over those of one that was killed.
    for written, resume in (({"lr": 0.5}, True), (given, False)):
        with _given_settings(tmp_path, ["run"], written, resume, first):
            assert read_config(path) == written
    with _given_settings(tmp_path, ["run"], {"lr": 0.5}, True, first):
        assert read_config(path) == given
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml").touch()
    with _given_settings(tmp_path, ["run"], {"lr": 0.5}, False, first):
        assert read_config(path) == given
    with (
        pytest.raises(ValueError, match="begun"),
        _given_settings(tmp_path, ["run"], given, False, first),
    ):
        raise ValueError("begun")
    assert path.exists()


def test_a_method_to_compare_with_is_checked_before_the_first_is_trained(tmp_path, capsys):
    """MentorNet has to know the share of wrong labels, and PTD-F does not."""
    data = write_clusters(tmp_path / "clusters.npz")
    given = quick_values(data, "PTD-F", noise="none", against="MentorNet")
    with pytest.raises(SystemExit) as ended:
        main(["train", *flags(given), "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert "forget_rate must be given: MentorNet leaves out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_data_are_recognised_by_their_path(tmp_path, capsys):
    pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    with open(tmp_path / "plants.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("width", "colour", "copy", "species"))
        for row in range(120):
            width = generator.normal() + 4 * (row % 2)
            writer.writerow((width, "rg"[row % 3 == 0], row % 2, ("iris", "rose")[row % 2]))
    quick = ["--method", "PTD-F", "--epochs", "2", "--n-parts", "2", "--threads", "1"]
    quick += ["--out", str(tmp_path / "run")]
    main(["train", "--data", str(tmp_path / "plants.csv"), "--label", "species", *quick])
    assert "Column 'copy' determines the label of every row" in capsys.readouterr().out
    assert 'dataset = "table"' in (tmp_path / "run" / "settings.toml").read_text()
    with open(tmp_path / "run" / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["id"]) for row in rows) == list(range(120))
    assert {row["given_label"] for row in rows} == {"iris", "rose"}
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--data", str(tmp_path / "plants.csv"), *quick[:-1], str(tmp_path / "b")])
    assert "--label must name the column of the labels: width, colour" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_names_the_columns(tmp_path):
    pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    with open(tmp_path / "plants.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("width", "colour", "species"))
        for row in range(120):
            wrong = row % 10 == 3
            width = generator.normal() + 8 * (row % 2)
            writer.writerow((width, "rg"[row % 3 == 0], ("iris", "rose")[(row + wrong) % 2]))
    arguments = ["--label", "species", "--method", "EM-F", "--threads", "1", "--no-progress"]
    main(["train", str(tmp_path / "plants.csv"), *arguments, "--out", str(tmp_path / "run")])
    assert '"columns": [["width", "colour"]]' in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "--dataset", "digits"], "data does not apply to digits, which has no files"),
        (["compare", "--seeds", "1"], "--label must name the column of the labels: a, b"),
        (["noise"], "--noise must be one of"),
        (["reproduce", "digits"], "data does not apply to digits, which has no files"),
    ],
)
def test_no_command_trains_on_other_data_than_were_given(tmp_path, capsys, command, message):
    pytest.importorskip("pandas")
    (tmp_path / "my.csv").write_text("a,b\n1,x\n2,y\n")
    out = ["--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"[12]"):
        main([*command, "--data", str(tmp_path / "my.csv"), *out])
    assert message in capsys.readouterr().err
