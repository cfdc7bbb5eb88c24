"""The files of a data set, and the message about missing ones."""

import pytest

from ptd_ext.experiments.datasets.locate import MissingFileError, find, folders, require


def test_the_first_folder_counts_then_the_first_name(tmp_path):
    places = folders(tmp_path, ("a", "b"))
    assert places == [tmp_path, tmp_path / "a", tmp_path / "b"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "y").touch()
    assert find(["x", "y"], places) == tmp_path / "b" / "y"
    (tmp_path / "y").touch()
    assert find(["x", "y"], places) == tmp_path / "y"
    (tmp_path / "x").touch()
    assert find(["x", "y"], places) == tmp_path / "x"
    assert find(["z"], places) is None
    assert require("d", "x", places, "https://h") == tmp_path / "x"
    with pytest.raises(MissingFileError, match="d needs z; looked in"):
        require("d", "z", places, "https://h")
    assert folders(None, ("a",)) == []


def test_the_message_names_folders_and_source(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"d needs x; looked in .*, b\. .* are at https://h"
    ):
        raise MissingFileError("d", "x", [tmp_path, "b"], "https://h")
    with pytest.raises(MissingFileError, match="looked in no folder, as none was given"):
        raise MissingFileError("d", "x", [], "https://h")
