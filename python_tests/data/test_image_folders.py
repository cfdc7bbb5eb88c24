"""Folders of images: classes, parts and the table of a cleaned copy."""

import csv

import numpy as np
import pytest
from data.data_cases import folder_part, picture

from ptd_ext.data.image_folders import read_folder

pytest.importorskip("PIL")


def test_classes_are_folders(tmp_path):
    folder_part(tmp_path, ".")
    picture(tmp_path / "ant" / "deeper" / "x.JPG", 5)
    data = read_folder(tmp_path, 8, parts=True)
    assert data.classes == ("ant", "bee")
    assert data.ids.tolist() == [
        *("ant/0.png", "ant/1.png", "ant/2.png", "ant/deeper/x.JPG"),
        *("bee/0.png", "bee/1.png", "bee/2.png"),
    ]
    assert data.y.tolist() == ["ant"] * 4 + ["bee"] * 3
    assert data.rows()[:, 0, 4, 4].tolist() == [0, 1, 2, 5, 100, 101, 102]


def test_parts(tmp_path):
    for part, count in (("train", 3), ("val", 1)):
        folder_part(tmp_path, part, count=count)
    data = read_folder(tmp_path, 8, parts=True)
    assert data.test.ids.tolist() == ["val/ant/0.png", "val/bee/0.png"]
    assert data.validation is None
    folder_part(tmp_path, "test", count=2)
    data = read_folder(tmp_path, 8, parts=True)
    assert len(data.test.y) == 4
    assert data.validation.y.tolist() == ["ant", "bee"]
    with pytest.raises(ValueError, match="test and train and val look like parts of a data set"):
        read_folder(tmp_path, 8, parts=False)


def test_wrong_folders(tmp_path):
    with pytest.raises(ValueError, match="must hold a folder for each of two or more classes"):
        read_folder(tmp_path, 8, parts=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match=r"must hold images \(\.jpg, .*it has none"):
        read_folder(tmp_path, 8, parts=True)
    folder_part(tmp_path / "c", "train")
    folder_part(tmp_path / "c", "test", classes=("ant", "cow"))
    with pytest.raises(ValueError, match=r"cow is a class that .*train does not have"):
        read_folder(tmp_path / "c", 8, parts=True)


def test_a_copy_is_a_table_of_file_names(tmp_path):
    folder_part(tmp_path, ".", classes=("an,t", 'b\r"ee'), count=1)
    data = read_folder(tmp_path, 8, parts=False)
    data.write(tmp_path / "copy.csv", np.array([True, True]), data.y[::-1])
    with open(tmp_path / "copy.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["file", "label"], ["an,t/0.png", 'b\r"ee'], ['b\r"ee/0.png', "an,t"]]
