"""The checks that all kinds of user data share."""

import numpy as np
import pytest
from data.data_cases import folder_part

from ptd_ext.data.image_folders import read_folder
from ptd_ext.data.user_data import check_labels, digest


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
