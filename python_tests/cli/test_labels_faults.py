"""`ptd-ext labels` with settings and files that cannot work: a sentence before any training."""

import hashlib
import io
import zipfile

import numpy as np
import pytest
from cli.command_cases import TRUSTED, labels, refused, two_clouds

from ptd_ext.cli import labels as command
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.label_issues.find import find_label_issues

pandas = pytest.importorskip("pandas")
pytest.importorskip("sklearn")


@pytest.fixture
def table(tmp_path):
    two_clouds().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def untrained(monkeypatch):
    """Makes training a failure of the test."""

    def train(*_, **__):
        raise AssertionError("training began")

    monkeypatch.setattr(Trainer, "train", train)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--device", "nope"], "--device must be auto, cpu, cuda or cuda:1; got 'nope'"),
        (["--device", "meta"], "--device is meta, which this torch cannot use"),
        (["--image-size", 1_000_000], "--image-size must be from 1 to 1024; got 1000000"),
        (["--max-samples", -1], "--max-samples must be at least 0; got -1"),
        (["--image-size", 0], "--image-size must be from 1 to 1024; got 0"),
        (["--seed", 2**70], f"--seed must be an integer from 0 to {2**63 - 2**10}; got"),
        (["--seed", -1], "--seed must be an integer from 0"),
        (
            ["--encoder", "none.pt"],
            "--encoder must be a function, a file of weights or LIBRARY:NAME with one of",
        ),
        (["--encoder", __file__], "--encoder takes images"),
        (["--flag-share", "nan"], "--flag-share must be a finite number of at least 0; got nan"),
        (["--flag-share", -1], "--flag-share must be a finite number of at least 0; got -1"),
        (["--cross-fit", 1], "--cross-fit must be 0 or at least 2; got 1"),
        (["--cross-fit", -3], "--cross-fit must be 0 or at least 2; got -3"),
        (["--cross-fit", 10_000], "--cross-fit must be 0 or from 2 to the 80 rows; got 10000"),
        (["--n-parts", 0], "--n-parts must be an integer from 1 to 256; got 0"),
        (
            ["--validation-fraction", 2],
            "--validation-fraction must be more than 0 and less than 1",
        ),
        (["--text", "side"], "--text must name a column other than the labels, 'side'"),
    ],
)
def test_settings_are_checked_before_the_training(table, untrained, capsys, arguments, sentence):
    assert sentence in refused(capsys, table, "--label", "side", *arguments)
    assert not table.with_name("data-labels").exists()


def test_folders_are_checked_before_the_training(table, untrained, capsys):
    under = ["--label", "side", "--out", table / "below"]
    assert "could not be written: Not a directory" in refused(capsys, table, *under)
    assert "is a file" in refused(capsys, table, "--label", "side", "--out", table)


def test_results_without_their_table_are_no_leftovers(table, capsys):
    """A user may move the table away and edit the rest: a killed command leaves a lock, too."""
    labels(table, "--label", "side", "--relabel", *TRUSTED)
    out = table.with_name("data-labels")
    (out / "labels.csv").rename(table.with_name("moved.csv"))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(before) == ["cleaned.csv", "report.html"]
    assert "not empty; nothing is overwritten" in refused(capsys, table, "--label", "side")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_results_of_a_killed_command_stay_until_there_are_others(table, capsys):
    out = table.with_name("data-labels")
    out.mkdir()
    (out / ".lock").touch()
    (out / "cleaned.csv").write_bytes(table.read_bytes())
    inside = [out / "cleaned.csv", "--label", "side", "--out", out]
    assert "--out must be a folder apart from the data" in refused(capsys, *inside)
    assert "has no column 'none'" in refused(capsys, table, "--label", "none")
    assert (out / "cleaned.csv").exists()
    labels(table, "--label", "side", *TRUSTED)
    assert sorted(path.name for path in out.iterdir()) == ["labels.csv", "report.html"]


def test_a_file_that_changes_gets_no_labels(table, capsys, monkeypatch):
    """Refused before anything is written: the labels are of rows in another order."""

    def find_and_reorder(*arguments, **options):
        found = find_label_issues(*arguments, **options)
        two_clouds()[::-1].to_csv(table, index=False)
        return found

    monkeypatch.setattr(command, "find_label_issues", find_and_reorder)
    said = refused(capsys, table, "--label", "side", "--relabel", *TRUSTED)
    assert "data.csv changed while its labels were judged. Judge it again." in said
    assert not table.with_name("data-labels").exists()


@pytest.mark.parametrize("flag", ["--drop", "--relabel"])
def test_findings_that_cannot_be_trusted_clean_nothing(table, capsys, flag):
    """Table and page are not written either, so that the same command can be given again."""
    frame = two_clouds()
    frame["side"] = np.random.default_rng(5).permutation(frame["side"].to_numpy())
    frame.to_csv(table, index=False)
    said = refused(capsys, table, "--label", "side", flag)
    assert "findings cannot be trusted, so that no cleaned copy can be made: see the" in said
    assert not table.with_name("data-labels").exists()
    labels(table, "--label", "side")
    assert sorted(path.name for path in table.with_name("data-labels").iterdir()) == [
        "labels.csv",
        "report.html",
    ]
    page = table.with_name("data-labels").joinpath("report.html").read_text("utf-8")
    assert "SHA-256 of data.csv" in page
    assert hashlib.sha256(table.read_bytes()).hexdigest()[:16] in page


def test_an_empty_folder_of_the_user_stays(table, capsys):
    out = table.with_name("mine")
    out.mkdir()
    named = table.rename(table.with_name("n_parts_runs.csv"))
    said = refused(capsys, named, "--label", "none", "--out", out)
    assert "n_parts_runs.csv has no column 'none'" in said
    assert not any(out.iterdir())


def test_columns_of_the_same_name_are_refused(tmp_path, capsys):
    """The second one would be learned from: it may be a copy of the labels."""
    path = tmp_path / "data.csv"
    frame = two_clouds()
    frame["copy"] = frame["side"]
    frame.to_csv(path, index=False, header=["width", "height", "side", "side"])
    assert "has 2 columns named 'side'" in refused(capsys, path, "--label", "side")
    frame.to_csv(path, index=False, header=["width", "width", "side", "copy"])
    left_out = ["--label", "side", "--ignore", "width"]
    assert "has 2 columns named 'width'" in refused(capsys, path, *left_out)


def test_a_label_of_ten_million_characters(tmp_path, untrained, capsys):
    frame = two_clouds()
    frame.loc[3, "side"] = "x" * 10_000_000
    frame.to_csv(tmp_path / "data.csv", index=False)
    said = refused(capsys, tmp_path / "data.csv", "--label", "side")
    assert "the label in row 3 has 10,000,000" in said


def test_missing_labels_are_named(tmp_path, untrained, capsys):
    frame = two_clouds()
    frame.loc[5, "side"] = "NA"
    frame.to_csv(tmp_path / "data.csv", index=False)
    said = refused(capsys, tmp_path / "data.csv", "--label", "side")
    assert "'NA' in row 5 stands for a missing one" in said


def test_rows_with_more_cells_than_names(tmp_path, untrained, capsys):
    (tmp_path / "data.csv").write_text("a,b\n" + "1,2,3\n" * 9)
    said = refused(capsys, tmp_path / "data.csv", "--label", "b")
    assert "must have as many cells in a row as names in its first line" in said


def test_a_table_of_a_million_columns(tmp_path, untrained, capsys):
    """pandas takes a minute and a gigabyte for it."""
    (tmp_path / "data.csv").write_text("y" + ",x" * 1_000_000 + "\n")
    said = refused(capsys, tmp_path / "data.csv", "--label", "y")
    assert "may have 100,000 columns; it has 1,000,001" in said


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.array(3.0)}, "x of .*rows.npz must be rows [N, D] or images"),
        ({"x": np.ones((40, 2)) + 1j}, "of real numbers; it is complex128 [40, 2]"),
        ({"x": np.ones((40, 1, 0, 4))}, "it is float64 [40, 1, 0, 4]"),
        ({"x": np.where(np.arange(80) == 7, np.nan, 1.0).reshape(40, 2)}, "infinity in row 3"),
        ({"y": np.arange(5) % 2}, "must hold one of y for each of the 40 rows of x; its shape is"),
        ({"y": np.where(np.arange(40) % 2, np.nan, 1.0)}, "has a missing label at row 1"),
        ({"y": np.arange(40)}, "holds 40 different labels in 40 rows"),
        ({"ids": np.arange(5)}, "must hold one of ids for each of the 40 rows"),
    ],
)
def test_odd_arrays(tmp_path, untrained, capsys, arrays, sentence):
    plain = {"x": np.ones((40, 2)), "y": np.arange(40) % 2}
    np.savez(tmp_path / "rows.npz", **{**plain, **arrays})
    said = refused(capsys, tmp_path / "rows.npz")
    assert sentence.replace(".*", str(tmp_path) + "/") in said


def test_parts_of_a_data_set_are_no_classes(tmp_path, untrained, capsys):
    image = pytest.importorskip("PIL.Image")
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "1.png")
    assert "test and train look like parts" in refused(capsys, tmp_path / "photos")


def test_a_column_called_self(tmp_path):
    frame = two_clouds().rename(columns={"side": "self"})
    frame.to_csv(tmp_path / "data.csv", index=False)
    labels(tmp_path / "data.csv", "--label", "self", "--relabel", *TRUSTED)
    assert "self" in pandas.read_csv(tmp_path / "data-labels" / "cleaned.csv")


def test_arrays_of_any_name_are_copied(tmp_path, capsys):
    """NumPy's savez has arguments of these names; objects are copied and never unpickled."""
    frame = two_clouds()
    rows, sides = frame[["width", "height"]].to_numpy(), frame["side"].to_numpy(dtype=str)
    path, ids = tmp_path / "rows.npz", np.arange(80) + 2**62
    others = {"file": np.arange(3), "allow_pickle": np.eye(2)}
    np.savez(path, x=rows, y=sides, ids=ids, notes=np.array(["a", 1], dtype=object))
    with zipfile.ZipFile(path, "a") as archive:
        for name, array in others.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    labels(path, "--drop", *TRUSTED)
    found = pandas.read_csv(tmp_path / "rows-labels" / "labels.csv")
    assert found["id"].tolist() == ids.tolist()
    cleaned = np.load(tmp_path / "rows-labels" / "cleaned.npz", allow_pickle=True)
    kept = ~found["is_label_issue"].to_numpy()
    assert 0 < kept.sum() < 80
    assert cleaned["ids"].tolist() == ids[kept].tolist()
    assert cleaned["y"].tolist() == sides[kept].tolist()
    assert cleaned["notes"].tolist() == ["a", 1]
    for name, array in others.items():
        np.testing.assert_array_equal(cleaned[name], array)


def test_cells_of_a_copy_stay_as_they_are_written(tmp_path):
    frame = two_clouds()
    frame["side"] = frame["side"].map({"left": "007", "right": "=1+1"})
    lines = ["code,width,side,code,note"]
    for row in frame.itertuples():
        lines.append(f'01,{row.width:.3f}0,{row.side},2.50,"a, ""b"""')
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    labels(tmp_path / "data.csv", "--label", "side", "--relabel", *TRUSTED)
    out = tmp_path / "data-labels"
    found = pandas.read_csv(out / "labels.csv", dtype=str)
    assert found["given_label"].tolist() == frame["side"].tolist()
    assert (found["is_label_issue"] == "True").any()
    copied = (out / "cleaned.csv").read_text().splitlines()
    assert copied[0] == lines[0]
    for before, after, label in zip(lines[1:], copied[1:], found["suggested_label"], strict=True):
        cells = before.split(",")
        cells[2] = label
        assert after == ",".join(cells)


def test_a_column_of_row_numbers_is_not_learned_from(tmp_path, capsys):
    """pandas writes one by default, and it tells the classes apart where rows are sorted."""
    two_clouds().to_csv(tmp_path / "data.csv")
    labels(tmp_path / "data.csv", "--label", "side")
    assert "holds row numbers: it is not learned from" in capsys.readouterr().out


def test_a_copy_of_the_labels_is_pointed_out(tmp_path, capsys):
    frame = two_clouds().sort_values("side")
    frame["number"] = frame["side"].map({"left": 7, "right": 3})
    frame["half"] = frame["width"] > 0
    frame["once"] = [f"{side[0]}{row % 2}" for row, side in enumerate(frame["side"])]
    frame.to_csv(tmp_path / "data.csv", index=False)
    labels(tmp_path / "data.csv", "--label", "side")
    said = capsys.readouterr().out
    assert "warning: Column 'number' determines the label of every row" in said
    assert "'half'" not in said
    assert "'once'" not in said
    labels(tmp_path / "data.csv", "--label", "side", "--ignore", "number", "--out", tmp_path / "b")
    assert "determines the label" not in capsys.readouterr().out


def test_names_of_files_that_are_no_text(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for kind in (b"a\xff", b"b"):
        folder = tmp_path / "photos" / kind.decode("utf-8", "surrogateescape")
        folder.mkdir(parents=True)
        for each in range(6):
            image.new("RGB", (8, 8), 20 * each).save(folder / f"{each}.png")
    labels(tmp_path / "photos", "--image-size", 8)
    table = (tmp_path / "photos-labels" / "labels.csv").read_bytes()
    assert b"\na\xff/3.png,a\xff," in table


def test_parquet_keeps_types_and_index(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    frame = two_clouds()
    frame["side"] = frame["side"].astype("category")
    frame.index = pandas.Index([f"row {number}" for number in range(80)], name="key")
    frame.to_parquet(tmp_path / "data.parquet")
    labels(tmp_path / "data.parquet", "--label", "side", "--relabel", *TRUSTED)
    out = tmp_path / "data-labels"
    found, cleaned = (
        pandas.read_csv(out / "labels.csv"),
        pandas.read_parquet(out / "cleaned.parquet"),
    )
    assert found["id"].tolist() == cleaned.index.tolist() == frame.index.tolist()
    assert cleaned.dtypes.tolist() == frame.dtypes.tolist()
    assert cleaned["side"].tolist() == found["suggested_label"].tolist()
    assert (cleaned["side"] != frame["side"]).any()
    frame = frame.reset_index(drop=True)
    frame.to_parquet(tmp_path / "plain.parquet")
    labels(tmp_path / "plain.parquet", "--label", "side", "--drop", *TRUSTED)
    plain = pandas.read_parquet(tmp_path / "plain-labels" / "cleaned.parquet")
    assert plain.columns.tolist() == frame.columns.tolist()
    assert plain.index.tolist() == list(range(len(plain)))
    frame["side"] = [[side] for side in frame["side"]]
    frame.to_parquet(tmp_path / "lists.parquet")
    assert "labels must be hashable" in refused(
        capsys, tmp_path / "lists.parquet", "--label", "side"
    )


def test_a_parquet_of_many_equal_rows(tmp_path, capsys):
    """It has some kilobytes."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    once = pyarrow.array(np.zeros(1_000_000, dtype=np.int8))
    column = pyarrow.chunked_array([once] * 200)
    parquet.write_table(pyarrow.table({"side": column}), tmp_path / "data.parquet")
    said = refused(capsys, tmp_path / "data.parquet", "--label", "side")
    assert "declares 1,600,000,000 bytes, more than the 1,073,741,824 allowed" in said
