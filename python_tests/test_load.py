"""Loading the compiled operators, and the errors of a torch or a build that cannot."""

import sys
from pathlib import Path

import pytest
import torch

import ptd_ext
from ptd_ext import _C, _load


def test_too_old_torch_at_import(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"needs torch 2\.10 or newer, but torch 2\.9\.1\+cpu is"):
        _load.load()


@pytest.mark.parametrize("running", ["2.10.0", "2.13.0+cpu", "2.100.1", "3.0.0a0+git1234"])
def test_torch_that_is_new_enough(running):
    _load._check_torch(running, "2.10")


def test_not_compiled(monkeypatch):
    monkeypatch.setitem(sys.modules, "ptd_ext._C", None)
    monkeypatch.delattr(ptd_ext, "_C")
    with pytest.raises(ImportError, match=r"ptd_ext in .* has not been compiled; install it with"):
        _load.load()


@pytest.mark.parametrize(
    ("cuda", "built", "expected"),
    [
        (None, True, ["_ops_cpu.so"]),
        ("13.0", True, ["_ops_cpu.so", "_ops_cuda.so"]),
        ("13.0", False, ["_ops_cpu.so"]),
    ],
)
def test_libraries(cuda, built, expected, monkeypatch, tmp_path):
    """The CUDA operators are loaded where they were built and torch has CUDA."""
    loaded = []
    monkeypatch.setattr(_C, "__file__", str(tmp_path / "_C.so"))
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: loaded.append(Path(path).name))
    if built:
        (tmp_path / "_ops_cuda.so").touch()
    _load.load()
    assert loaded == expected
