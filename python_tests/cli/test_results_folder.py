"""The folder of `ptd-ext labels`: claimed by one process, taken over from one that was killed."""

import os

import pytest
from cli.command_cases import labels, refused, two_clouds

pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from ptd_ext.cli import labels as command
from ptd_ext.cli.results_folder import cleaned_name, remove_unfinished, results_folder
from ptd_ext.utils import claimed_folders


@pytest.fixture
def table(tmp_path):
    two_clouds().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_the_folder_of_a_killed_command_is_taken_over(table, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    labels(table, "--label", "side", "--out", whole)
    broken.mkdir()
    for name in (".lock", "report.html", "cleaned.tsv", ".report.html.abcd1234.part"):
        (broken / name).write_text("left")
    (broken / "report_pictures").mkdir()
    (broken / "report_pictures" / "one.png").write_text("left")
    labels(table, "--label", "side", "--out", broken)
    assert sorted(os.listdir(broken)) == ["labels.csv", "report.html"]
    for name in ("labels.csv", "report.html"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([".lock", "labels.csv"], "holds results already; nothing is overwritten"),
        (["report.html"], "exists and is not empty"),
        ([".lock", "report.html", "thesis.tex"], "exists and is not empty"),
    ],
)
def test_other_folders_stay_as_they_are(table, tmp_path, capsys, names, sentence):
    out = tmp_path / "out"
    out.mkdir()
    for name in names:
        (out / name).write_text("mine")
    assert sentence in refused(capsys, table, "--label", "side", "--out", out)
    assert {path.name: path.read_text() for path in out.iterdir()} == dict.fromkeys(names, "mine")


def test_an_error_leaves_no_folder(table, capsys):
    refused(capsys, table, "--label", "colour")
    assert not table.with_name("data-labels").exists()


def test_two_commands_in_one_folder(table, tmp_path, capsys, monkeypatch):
    """The second one starts when the first has claimed the folder, and has written nothing."""
    out, real = tmp_path / "out", command.read_data

    def second_one(*arguments, **options):
        monkeypatch.setattr(command, "read_data", real)
        with monkeypatch.context() as patch:
            patch.setattr(claimed_folders, "_claimed", set())
            said = refused(capsys, table, "--label", "side", "--out", out)
            assert "is in use: another process writes to it" in said
        return real(*arguments, **options)

    monkeypatch.setattr(command, "read_data", second_one)
    labels(table, "--label", "side", "--out", out)
    assert (out / "labels.csv").exists()


@pytest.mark.parametrize("place", [".", "../here"])
def test_the_folder_one_stands_in(tmp_path, monkeypatch, place):
    image = pytest.importorskip("PIL.Image")
    for kind in ("a", "b"):
        (tmp_path / "here" / kind).mkdir(parents=True)
        for each in range(6):
            image.new("RGB", (8, 8), 20 * each).save(tmp_path / "here" / kind / f"{each}.png")
    monkeypatch.chdir(tmp_path / "here")
    labels(place, "--image-size", 8)
    assert (tmp_path / "here-labels" / "labels.csv").exists()


@pytest.mark.parametrize(("name", "copy"), [("a.TSV", "cleaned.tsv"), ("a.npz", "cleaned.npz")])
def test_the_copy_has_the_ending_of_the_data(tmp_path, name, copy):
    assert cleaned_name(tmp_path / name) == copy
    assert cleaned_name(tmp_path) == "cleaned.csv"


def test_only_results_are_removed(tmp_path):
    for name in ("report.html", "cleaned.npz", "labels.csv", "notes.txt"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["labels.csv", "notes.txt"]


@pytest.mark.parametrize("out", ["photos/out", ".", "photos"])
def test_a_folder_within_the_data_or_around_them_is_rejected(tmp_path, out):
    (tmp_path / "photos").mkdir()
    with (
        pytest.raises(ValueError, match="--out must be a folder apart from the data"),
        results_folder(tmp_path / out, tmp_path / "photos"),
    ):
        raise AssertionError("it was held")
    assert os.listdir(tmp_path) == ["photos"]
