"""`ptd-ext labels`: tables, arrays and folders in; a table, a page and a cleaned copy out."""

import numpy as np
import pytest

from ptd_ext.cli import main
from ptd_ext.data.read import read_data

pandas = pytest.importorskip("pandas")
QUICK = ["--network", "linear", "--method", "EM-F", "--no-progress"]


@pytest.fixture
def table(tmp_path):
    """Two clouds of points; every eighth label is wrong."""
    generator = np.random.default_rng(0)
    kinds = np.repeat(["left", "right"], 40)
    frame = pandas.DataFrame(generator.normal(size=(80, 2)), columns=["width", "height"])
    frame["width"] += np.where(kinds == "left", -4, 4)
    frame["side"] = kinds
    frame.loc[::8, "side"] = frame.loc[::8, "side"].map({"left": "right", "right": "left"})
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_table_page_and_copy_without_wrong_rows(table, capsys):
    main(["labels", str(table), "--label", "side", "--drop", *QUICK])
    out = table.with_name("data-labels")
    found = pandas.read_csv(out / "labels.csv")
    assert found["id"].tolist() == list(range(80))
    assert set(found["label_quality"].argsort()[:10]) == set(range(0, 80, 8))
    doubted = found["label_quality"].argmin()
    side = found.loc[doubted, ["given_label", "suggested_label"]].tolist()
    assert side == (["right", "left"] if doubted < 40 else ["left", "right"])
    cleaned = pandas.read_csv(out / "cleaned.csv")
    assert len(cleaned) == 80 - found["is_label_issue"].sum()
    assert "Labels of data.csv" in (out / "report.html").read_text(encoding="utf-8")
    assert "labels are probably wrong" in capsys.readouterr().out


def test_nothing_is_overwritten(table, capsys):
    out = table.parent / "mine"
    out.mkdir()
    (out / "labels.csv").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["labels", str(table), "--label", "side", "--out", str(out), *QUICK])
    assert (out / "labels.csv").read_text() == "mine"
    assert "nothing is overwritten" in capsys.readouterr().err


def test_arrays_lose_their_wrong_rows_only(tmp_path):
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = generator.normal(size=(60, 3)) + 5 * y[:, None]
    given = y.copy()
    given[7] = 1 - given[7]
    np.savez(tmp_path / "rows.npz", x=x, y=given, y_test=np.arange(60), note=np.array(4))
    out = tmp_path / "out"
    main(["labels", str(tmp_path / "rows.npz"), "--drop", "--out", str(out), *QUICK])
    cleaned = np.load(out / "cleaned.npz")
    flagged = pandas.read_csv(out / "labels.csv")["is_label_issue"].to_numpy()
    assert cleaned["y"].tolist() == given[~flagged].tolist()
    assert cleaned["note"] == 4
    np.testing.assert_array_equal(cleaned["y_test"], np.arange(60))


def test_arrays_with_names_of_classes(tmp_path):
    """The table has the names, and the cleaned copy numbers, as the file has."""
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    x, given = generator.normal(size=(60, 3)) + 5 * y[:, None], y.astype(np.int16)
    given[7] = 1 - given[7]
    path, out = tmp_path / "rows.npz", tmp_path / "out"
    np.savez(path, x=x, y=given, class_names=np.array(["cat", "dog", "eel"]))
    main(["labels", str(path), "--relabel", "--out", str(out), *QUICK])
    found = pandas.read_csv(out / "labels.csv")
    assert found["given_label"].tolist() == [("cat", "dog")[label] for label in given]
    cleaned = np.load(out / "cleaned.npz")
    suggested = found["suggested_label"].map({"cat": 0, "dog": 1})
    assert cleaned["y"].tolist() == suggested.tolist()
    assert cleaned["y"].dtype == np.int16
    assert cleaned["class_names"].tolist() == ["cat", "dog", "eel"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["cat"], "must have a name for every class; it has 1, and y is from 0 to 1"),
        (["cat", "cat"], r"must be strings \[C\], all different"),
        ([1, 2], r"must be strings \[C\], all different; it is int64 \[2\]"),
    ],
)
def test_names_of_classes_that_do_not_fit(tmp_path, names, sentence):
    path = tmp_path / "rows.npz"
    np.savez(path, x=np.ones((20, 2)), y=np.arange(20) % 2, class_names=np.array(names))
    with pytest.raises(ValueError, match=sentence):
        read_data(path)


def test_folders_of_images_keep_their_file_names(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number, kind in enumerate(["dark", "light"]):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for each in range(12):
            pixels = np.full((20, 24, 3), 200 * number + each, dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{each}.png")
    out = tmp_path / "out"
    main(["labels", str(tmp_path / "photos"), "--out", str(out), "--epochs", "2", "--no-progress"])
    found = pandas.read_csv(out / "labels.csv")
    assert found["id"].tolist()[0] == "dark/0.png"
    assert set(found["given_label"]) == {"dark", "light"}


def test_texts(tmp_path):
    words = {"sport": "ball goal team run", "cook": "salt oven bread soup"}
    generator = np.random.default_rng(0)
    rows = [
        (kind, " ".join(generator.choice(words[kind].split(), 6)))
        for kind in words
        for _ in range(100)
    ]
    frame = pandas.DataFrame(rows, columns=["topic", "title"])
    frame.loc[:19, "topic"] = "cook"
    frame.to_csv(tmp_path / "news.tsv", index=False, sep="\t")
    main(
        [
            "labels",
            str(tmp_path / "news.tsv"),
            "--label",
            "topic",
            "--text",
            "title",
            "--relabel",
            *QUICK,
        ]
    )
    page = (tmp_path / "news-labels" / "report.html").read_text(encoding="utf-8")
    assert any(text in page for _, text in rows[:20])
    cleaned = pandas.read_csv(tmp_path / "news-labels" / "cleaned.tsv", sep="\t")
    found = pandas.read_csv(tmp_path / "news-labels" / "labels.csv")
    assert cleaned["topic"].tolist() == found["suggested_label"].tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--label must name the column of the labels: width, height, side"),
        (["--label", "colour"], "has no column 'colour'; it has width, height, side"),
    ],
)
def test_bad_arguments_get_a_sentence(table, arguments, sentence, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["labels", str(table), *arguments, *QUICK])
    assert sentence in capsys.readouterr().err


def test_unknown_files_get_a_sentence(tmp_path, capsys):
    (tmp_path / "data.xlsx").write_bytes(b"")
    for name, sentence in (
        ("data.xlsx", "must be a folder of images or end in"),
        ("no", "neither"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["labels", str(tmp_path / name)])
        assert sentence in capsys.readouterr().err


def test_labels_with_decimals_stay_as_they_are_written(table):
    given = pandas.read_csv(table)
    given["side"] = given["side"].map({"left": "1.00", "right": "2.00"})
    given.to_csv(table, index=False)
    main(["labels", str(table), "--label", "side", "--relabel", *QUICK])
    copied = pandas.read_csv(table.parent / "data-labels" / "cleaned.csv", dtype=str)["side"]
    assert set(copied) == {"1.00", "2.00"}
    assert (copied != given["side"]).any()


def test_a_copy_is_cleaned_by_decisions_alone(table, capsys):
    path = table.with_name("decisions.csv")
    path.write_text("id,decision,verified_label\n0,corrected,left\n8,wrong,\n9,confirmed,\n")
    before = pandas.read_csv(table)
    arguments = ["labels", str(table), "--label", "side", "--apply", str(path)]
    main(arguments)
    out = table.with_name("data-cleaned")
    assert sorted(each.name for each in out.iterdir()) == ["changes.csv", "cleaned.csv"]
    cleaned = pandas.read_csv(out / "cleaned.csv")
    assert cleaned["side"][0] == "left" != before["side"][0]
    changed = before.assign(side=before["side"].where(before.index != 0, "left"))
    pandas.testing.assert_frame_equal(cleaned, changed.drop(8).reset_index(drop=True))
    assert "1 labels corrected, 1 rows left out" in capsys.readouterr().out
    changes = pandas.read_csv(out / "changes.csv")
    assert changes[["row", "change"]].to_numpy().tolist() == [[0, "corrected"], [8, "left out"]]
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "nothing is overwritten" in capsys.readouterr().err


def test_decisions_on_other_labels_are_rejected(table, capsys):
    path = table.with_name("decisions.csv")
    path.write_text("id,given_label,decision,verified_label\n1,right,corrected,left\n")
    with pytest.raises(SystemExit, match="2"):
        main(["labels", str(table), "--label", "side", "--apply", str(path)])
    assert "given_label in line 2 of" in capsys.readouterr().err
    assert not table.with_name("data-cleaned").joinpath("cleaned.csv").exists()


def test_verified_labels_are_in_the_table(table):
    path = table.with_name("decisions.csv")
    path.write_text("id,decision,verified_label\n0,corrected,left\n9,confirmed,\n")
    main(["labels", str(table), "--label", "side", "--verified", str(path), *QUICK])
    found = pandas.read_csv(table.with_name("data-labels") / "labels.csv")
    assert found["verified"].value_counts().to_dict() == {"no": 78, "corrected": 1, "confirmed": 1}
    assert not found["is_label_issue"][[0, 9]].any()
