"""NumPy's files: what NumPy gives, and what is rejected before it is read."""

import io
import zipfile

import numpy as np
import pytest

from ptd_ext.utils.formats.npy import map_npy, read_npy, read_npz

ARRAYS = {
    "bool": np.array([True, False]),
    "int": np.arange(6, dtype=">i2").reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "complex": np.array([1 + 2j]),
    "half": np.arange(3, dtype=np.float16),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(2.5),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("read", [read_npy, map_npy])
def test_what_numpy_gives(tmp_path, name, read):
    np.save(tmp_path / "a.npy", ARRAYS[name])
    found = read(tmp_path / "a.npy")
    assert found.dtype == ARRAYS[name].dtype
    assert np.array_equal(found, ARRAYS[name])


def test_only_the_chosen_arrays_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS, objects=np.array([object()], dtype=object))
    found, names = read_npz(tmp_path / "a.npz", lambda names: [n for n in names if "o" not in n])
    assert set(found) == {name for name in ARRAYS if "o" not in name}
    assert set(names) == {*ARRAYS, "objects"}
    for name, array in found.items():
        assert np.array_equal(array, ARRAYS[name])


def test_strings_where_they_are_allowed(tmp_path):
    labels = np.array(["kitten", "ünïcode", ""])
    np.savez_compressed(tmp_path / "a.npz", y=labels, z=labels.astype(">U7"))
    found, _ = read_npz(tmp_path / "a.npz", lambda names: names, strings=["y", "z"])
    assert found["y"].tolist() == found["z"].tolist() == labels.tolist()
    with pytest.raises(ValueError, match="must hold numbers; y holds"):
        read_npz(tmp_path / "a.npz", lambda names: names)


def header(text, data=b""):
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def described(kind, shape, data=b""):
    return header(f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}", data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is cut off, damaged or not a .npy file"),
        (described("<f8", "(3,)", b"\0" * 23), r"damaged: the array is \[3\], more than its"),
        (described("<f8", "(1 << 60, 1 << 60)"), "is cut off, damaged or not"),
        (described("<f8", "(1000000000000, 1000000000000)"), "more than its 128 bytes hold"),
        (described("<f8", "(-1,)"), r"is damaged: the array is \[-1\]"),
        (described("|O", "(1,)", b"\0" * 8), "holds Python objects, which could run code"),
        (described("<U3", "(1,)", b"\0" * 12), "must hold numbers; the array holds <U3"),
        (described("<f1", "(1,)", b"\0"), "must hold numbers; the array holds another type"),
        (b"\x93NUMPY\x02\x00" + b"\0" * 200, r"version \(2, 0\) of the format"),
    ],
)
@pytest.mark.parametrize("read", [read_npy, map_npy])
def test_files_that_are_rejected(tmp_path, content, message, read):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.npy .*{message}"):
        read(tmp_path / "a.npy")


@pytest.mark.parametrize("point", [0xD800, 0xDFFF, 0x110000])
def test_characters_that_unicode_lacks(tmp_path, point):
    file = io.BytesIO(described("<U1", "(1,)", point.to_bytes(4, "little")))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("y.npy", file.getvalue())
    with pytest.raises(ValueError, match=r"a\.npz is damaged: y holds"):
        read_npz(tmp_path / "a.npz", lambda names: names, strings=["y"])
