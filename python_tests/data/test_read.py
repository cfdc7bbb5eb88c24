"""read_data recognises a file or a folder by its path."""

import pytest
from data.data_cases import X, Y, folder_part, save

from ptd_ext.data.read import kind_of, read_data


@pytest.mark.parametrize(
    ("name", "kind"),
    [("d.CSV", "table"), ("d.tsv", "table"), ("d.parquet", "table"), ("d.npz", "npz")],
)
def test_kinds_of_files(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"")
    assert kind_of(tmp_path / name) == kind
    assert kind_of(str(tmp_path)) == "image_folder"


def test_other_paths(tmp_path):
    (tmp_path / "d.xlsx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must be a folder of images or end in \.csv, \.tsv"):
        read_data(tmp_path / "d.xlsx")
    with pytest.raises(FileNotFoundError, match="is neither a file nor a folder"):
        kind_of(tmp_path / "none")


def test_every_kind_is_read(tmp_path):
    pytest.importorskip("pandas")
    assert read_data(save(tmp_path, x=X, y=Y, x_test=X, y_test=Y)).test is None
    assert len(read_data(tmp_path / "d.npz", parts=True).test.y) == 4
    (tmp_path / "d.csv").write_text("a,b\n1,x\n2,y\n")
    assert read_data(tmp_path / "d.csv", label="b").X.columns.tolist() == ["a"]
    folder_part(tmp_path / "photos", ".")
    assert read_data(tmp_path / "photos").X.size == 32
    assert read_data(tmp_path / "photos", image_size=8).X.size == 8
