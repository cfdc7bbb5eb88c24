"""The checks that all kinds of user data share."""

import os

import numpy as np
import pytest
from data.data_cases import folder_part, save

from ptd_ext.data.image_folders import read_folder
from ptd_ext.data.read import read_data
from ptd_ext.data.user_data import check_ids, check_labels, digest


def test_labels_that_are_not_classes():
    check_labels(list("abcdefghij"), "y")
    with pytest.raises(ValueError, match=r"must hold several rows of each class; .* 11 different"):
        check_labels(list("abcdefghijk"), "y")
    with pytest.raises(ValueError, match=r"the label in row 2 has 1,001. Is it the column"):
        check_labels(["a", "b", "c" * 1001], "y")
    with pytest.raises(ValueError, match="y must hold classes: labels must be hashable"):
        check_labels([["a"], ["b"]], "y")


def test_images_larger_than_the_memory(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    folder_part(tmp_path, ".")
    data = read_folder(tmp_path, 8, parts=False)
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    with pytest.raises(ValueError, match=r"6 images of 8 × 8 pixels, which need 1,152 .*--image"):
        data.rows()


def test_a_digest_depends_on_every_byte(tmp_path):
    content = np.arange(3 << 20, dtype=np.uint32).astype(np.uint8).tobytes()
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(content[:-1] + b"x")
    assert digest(tmp_path / "a") == digest(tmp_path / "a") != digest(tmp_path / "b")


def test_a_digest_of_a_folder_depends_on_names_sizes_and_times(tmp_path):
    (tmp_path / "below").mkdir()
    for name, content in (("below/1", b"a"), ("below/2", b"b"), ("3", b"a")):
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(0, len(name)))
    found = {digest(tmp_path)}
    (tmp_path / ".hidden").touch()
    assert digest(tmp_path) in found
    os.utime(tmp_path / "3", ns=(0, 7))
    found.add(digest(tmp_path))
    (tmp_path / "below/1").rename(tmp_path / "t")
    found.add(digest(tmp_path))
    (tmp_path / "below/2").write_bytes(b"longer")
    os.utime(tmp_path / "below/2", ns=(0, 7))
    found.add(digest(tmp_path))
    assert len(found) == 4


def change_tables(folder, ending):
    pandas = pytest.importorskip("pandas")
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"x": range(8), "side": list("abababab")})
    path = folder / f"d.{ending}"
    getattr(frame, f"to_{ending}")(path, index=False)
    data = read_data(path, label="side")
    getattr(frame[::-1], f"to_{ending}")(path, index=False)
    return data


def change_arrays(folder):
    data = read_data(save(folder, x=np.arange(8.0)[:, None], y=np.arange(8) % 2))
    save(folder, x=np.arange(8.0)[::-1, None], y=np.arange(8)[::-1] % 2)
    return data


def change_array_pair(folder):
    np.save(folder / "x.npy", np.arange(8.0)[:, None])
    np.save(folder / "y.npy", np.arange(8) % 2)
    data = read_data(folder / "x.npy", label=str(folder / "y.npy"))
    np.save(folder / "y.npy", np.arange(8)[::-1] % 2)
    return data


def change_images(folder):
    pytest.importorskip("PIL")
    folder_part(folder / "photos", ".")
    data = read_data(folder / "photos")
    first, second = (folder / "photos" / name for name in data.ids[:2])
    first.rename(folder / "t")
    second.rename(first)
    (folder / "t").rename(second)
    return data


CHANGES = {
    "csv": lambda folder: change_tables(folder, "csv"),
    "parquet": lambda folder: change_tables(folder, "parquet"),
    "npz": change_arrays,
    "npy": change_array_pair,
    "images": change_images,
}


@pytest.mark.parametrize("kind", CHANGES)
def test_rows_that_change_their_order_get_no_labels(tmp_path, kind):
    (tmp_path / "data").mkdir()
    data = CHANGES[kind](tmp_path / "data")
    keep = np.ones(len(data.ids), dtype=bool)
    with pytest.raises(ValueError, match=r"changed while its labels were judged\. Judge it"):
        data.write_copy(tmp_path / "copy", keep, np.asarray(data.y))
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("error", [None, IndexError])
def test_a_change_while_the_copy_is_written(tmp_path, error):
    """The file is read again for the copy; what a change makes of it is removed."""
    path = save(tmp_path, x=np.arange(8.0)[:, None], y=np.arange(8) % 2)
    data = read_data(path)

    def write(copy, keep, labels):
        save(tmp_path, x=np.zeros((8, 1)), y=np.arange(8) % 2)
        copy.touch()
        if error is not None:
            raise error

    object.__setattr__(data, "write", write)
    with pytest.raises(ValueError, match="changed while its labels were judged"):
        data.write_copy(tmp_path / "copy", np.ones(8, dtype=bool), data.y)
    assert not (tmp_path / "copy").exists()


def test_a_file_that_is_gone_has_changed(tmp_path):
    path = save(tmp_path, x=np.arange(8.0)[:, None], y=np.arange(8) % 2)
    data = read_data(path)
    data.check_unchanged()
    path.unlink()
    with pytest.raises(ValueError, match=r"d\.npz changed while"):
        data.check_unchanged()


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udcc3\udca9"])
def test_strings_that_no_table_holds_are_rejected_before_training(tmp_path, text):
    with pytest.raises(ValueError, match="y must be strings that a table can hold: "):
        check_labels(["a", text] * 2, "y")
    with pytest.raises(ValueError, match="the ids of d must be strings that a table can hold"):
        check_ids(np.array(["a", text], dtype=object), "d")
    check_ids(np.array([("a", 1), 2.5, os.fsdecode(b"\xff")], dtype=object), "d")
    check_ids(np.arange(3), "d")


def test_ids_are_checked_when_they_are_read(tmp_path):
    arrays = {"x": np.arange(8.0)[:, None], "y": np.arange(8) % 2}
    ids = np.array([f"a\0{row}" for row in range(8)])
    with pytest.raises(ValueError, match=r"the ids of .*d\.npz must be strings that a table can"):
        read_data(save(tmp_path, **arrays, ids=ids))
