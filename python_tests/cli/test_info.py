"""`ptd-ext info` describes the build, the machine, and what can be used on it."""

import json
from pathlib import Path

import pytest
import torch

from ptd_ext import _C
from ptd_ext.cli import info
from ptd_ext.engine.networks import NETWORKS
from ptd_ext.experiments.datasets import DATA_SETS, DataSetEntry
from ptd_ext.noise.kinds import KINDS
from ptd_ext.transition.estimators import ESTIMATORS


def test_info_prints_text_and_json(capsys):
    info.main([])
    text = capsys.readouterr().out
    for value in (torch.__version__, _C.cpu_isa(), _C.build_info()["compiler"]):
        assert value in text
    info.main(["--json"])
    assert json.loads(capsys.readouterr().out)["build"] == _C.build_info()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        ({"cuda": False}, "not built"),
        (
            {"cuda": True, "cuda_version": "13.0", "cuda_archs": ["75", "90"]},
            "CUDA 13.0 for 75 90, newer GPUs through PTX",
        ),
    ],
)
def test_info_names_the_cuda_architectures(build, text):
    assert text in info.report({**info.collect(), "build": _C.build_info() | build})


@pytest.mark.parametrize(("devices", "text"), [([], "none"), (["V100", "H100"], "V100, H100")])
def test_info_names_the_gpus(devices, text):
    found = info.collect()
    report = info.report({**found, "running": found["running"] | {"cuda_devices": devices}})
    assert f"\nCUDA devices  {text}\n" in report


def test_devices_that_cannot_be_used_are_not_listed(monkeypatch):
    """torch counts GPUs that a too old driver cannot run."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    for usable, names in ((False, []), (True, ["GPU 0"])):
        monkeypatch.setattr(torch.cuda, "is_available", lambda usable=usable: usable)
        assert info.collect()["running"]["cuda_devices"] == names


def test_info_lists_the_registries_and_what_is_missing(monkeypatch):
    absent = DataSetEntry(lambda root, seed: None, "nothing", modules=("no_such_module",))
    monkeypatch.setitem(DATA_SETS, "absent", absent)
    monkeypatch.setattr(info, "PACKAGES", {"all": ("json", "no_such_module")})
    usable = info.collect()["usable"]
    for registry, key in (
        (DATA_SETS, "data_sets"),
        (NETWORKS, "networks"),
        (KINDS, "noise"),
        (ESTIMATORS, "estimators"),
    ):
        assert list(usable[key]) == list(registry)
    assert usable["packages"] == {"all": {"json": True, "no_such_module": False}}
    lines = " ".join(info.report(info.collect()).split())
    assert "Data sets digits, mnist" in lines
    assert "unusable absent (no_such_module is not installed: pip install" in lines
    assert "lenet5 (images)" in lines
    assert "Noise instance (needs features), symmetric, pairwise" in lines
    assert "anchors (needs pred_probs)" in lines
    assert lines.endswith('Packages json missing no_such_module (pip install "ptd_ext[all]")')


def test_optional_packages_are_those_of_pyproject():
    tomllib = pytest.importorskip("tomllib")
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(pyproject.read_text())["project"]["optional-dependencies"]
    renamed = {"sklearn": "scikit-learn", "PIL": "pillow"}
    renamed["sentence_transformers"] = "sentence-transformers"
    for extra, modules in info.PACKAGES.items():
        assert {renamed.get(module, module) for module in modules} <= set(extras[extra])
