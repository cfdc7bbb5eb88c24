"""MATLAB 5 files are read as SciPy writes them, and damage is reported."""

import numpy as np
import pytest

from ptd_ext.utils.formats.matlab import read_mat

scipy_io = pytest.importorskip("scipy.io")

ARRAYS = {
    "X": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "y": np.array([[1.0], [2.0], [10.0]]),
    "small": np.array([[7]], np.int16),
    "singles": np.linspace(0, 1, 5, dtype=np.float32)[None],
    "empty": np.zeros((0, 3)),
}


@pytest.fixture(params=[True, False], ids=["compressed", "plain"])
def path(request, tmp_path):
    path = tmp_path / "a.mat"
    scipy_io.savemat(path, ARRAYS | {"text": "abc"}, do_compression=request.param)
    return path


def test_what_scipy_gives(path):
    expected = scipy_io.loadmat(path)
    found = read_mat(path, list(ARRAYS))
    assert set(found) == set(ARRAYS)
    for name, array in found.items():
        assert array.dtype == ARRAYS[name].dtype
        assert np.array_equal(array, expected[name])


def test_only_named_variables_are_read(path):
    assert list(read_mat(path, ["y", "absent"])) == ["y"]
    with pytest.raises(ValueError, match=r"a\.mat must hold real numbers; text are others"):
        read_mat(path, ["text"])


def test_complex_numbers_are_rejected(tmp_path):
    scipy_io.savemat(tmp_path / "a.mat", {"z": np.array([1 + 2j])})
    with pytest.raises(ValueError, match="must hold real numbers; z are others"):
        read_mat(tmp_path / "a.mat", ["z"])


def test_the_limit_to_the_byte(path):
    assert read_mat(path, ["X"], limit=24)["X"].shape == (2, 3, 4)
    with pytest.raises(ValueError, match=r"holds X of \[2, 3, 4\] numbers, more than 23 bytes"):
        read_mat(path, ["X"], limit=23)


def test_cut_files(path):
    content = path.read_bytes()
    for length in (0, 100, 127, 132, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"a\.mat is cut off"):
            read_mat(path, list(ARRAYS))


def test_many_variables(tmp_path, monkeypatch):
    monkeypatch.setattr("ptd_ext.utils.formats.matlab._MAX_VARIABLES", 2)
    scipy_io.savemat(tmp_path / "a.mat", {name: np.zeros(1) for name in "abc"})
    with pytest.raises(ValueError, match="must hold at most 2 variables; it holds more"):
        read_mat(tmp_path / "a.mat", ["a"])
