"""Installing: what a build says about itself, and what it says when it cannot work."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ptd_ext import _C

ROOT = Path(__file__).parents[2]


@pytest.fixture
def probe(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "backend")
    import ptd_ext_probe

    return ptd_ext_probe


@pytest.fixture
def backend(probe, monkeypatch):
    """The build backend with scikit-build-core and a compiler, which only a build has, replaced."""
    monkeypatch.setenv("CXX", sys.executable)
    hooks = SimpleNamespace(
        build_sdist=None,
        get_requires_for_build_sdist=None,
        get_requires_for_build_wheel=lambda settings: ["ninja"],
    )
    monkeypatch.setitem(sys.modules, "scikit_build_core", SimpleNamespace(build=hooks))
    monkeypatch.setitem(sys.modules, "scikit_build_core.build", hooks)
    monkeypatch.delitem(sys.modules, "ptd_ext_build", raising=False)
    import ptd_ext_build

    return ptd_ext_build


@pytest.fixture
def install_torch(probe, monkeypatch, tmp_path):
    """Pretend that exactly one torch is installed, as seen from under build isolation."""
    monkeypatch.setattr(probe, "find_spec", lambda name: None)
    monkeypatch.setattr(probe, "target_site_packages", lambda: [str(tmp_path)])

    def install(version, cuda=None):
        folder = tmp_path / "torch"
        folder.mkdir()
        (folder / "__init__.py").write_text("raise AssertionError('torch must not be imported')")
        (folder / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
        return folder

    return install


@pytest.fixture
def nvcc(monkeypatch, tmp_path):
    """An nvcc 13.0 that knows some architectures and compiles nothing."""
    script = tmp_path / "nvcc"
    script.write_text(
        """#!/bin/sh
case "$1" in
  --version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
  --list-gpu-arch) for a in 120 90 75 88 100; do echo compute_$a; done ;;
esac
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(script))
    return str(script)


def test_build_info_describes_the_build():
    build = _C.build_info()
    assert build["version"] == importlib.metadata.version("ptd_ext")
    assert build["torch_oldest"] == "2.10"
    assert build["cpu_variants"][0] == "portable"
    assert _C.cpu_isa() in build["cpu_variants"]
    assert build["cuda"] == bool(build["cuda_archs"]) == (build["cuda_version"] is not None)


def selected_isa(asked):
    """`_C.cpu_isa()` in a process of its own, where the choice has not been made yet."""
    return subprocess.run(
        [sys.executable, "-c", "import _C; print(_C.cpu_isa())"],
        cwd=Path(_C.__file__).parent,
        env={**os.environ, "PTD_EXT_CPU_ISA": asked},
        capture_output=True,
        text=True,
    )


def test_isa_can_be_lowered():
    assert selected_isa("portable").stdout.strip() == "portable"


def test_isa_that_does_not_exist():
    assert "must be portable, avx2 or avx512, not 'sse'." in selected_isa("sse").stderr


@pytest.mark.parametrize("asked", ["avx2", "avx512"])
def test_isa_is_used_or_rejected(asked):
    answer = selected_isa(asked)
    assert answer.stdout.strip() == asked or f"PTD_EXT_CPU_ISA={asked} cannot" in answer.stderr


def test_installed_torch_is_used_and_no_second_one_required(backend, probe, install_torch):
    folder = install_torch("2.10.0+cu128", cuda="12.8")
    assert probe.find_torch() == (folder, "2.10.0+cu128", "12.8")
    assert backend.get_requires_for_build_wheel({"cmake.define.PTD_EXT_CUDA": "off"}) == ["ninja"]


def test_activated_environment_is_searched(probe, monkeypatch, tmp_path):
    folder = tmp_path / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert str(folder) in probe.target_site_packages()


def test_without_torch_the_tested_one_is_required(backend, probe, install_torch):
    pinned = next(
        line
        for line in (ROOT / "constraints.txt").read_text().split()
        if line.startswith("torch==")
    )
    assert backend.get_requires_for_build_wheel({}) == ["ninja", pinned]
    with pytest.raises(SystemExit, match="ptd_ext needs torch to build"):
        backend.build_wheel("unused")


def test_too_old_torch_is_replaced_or_reported(backend, install_torch):
    install_torch("2.9.1")
    assert len(backend.get_requires_for_build_wheel({})) == 2
    with pytest.raises(SystemExit, match=r"needs torch 2\.10 or newer, but torch 2\.9\.1 is"):
        backend.build_wheel("unused")


def test_no_compiler(backend, monkeypatch, install_torch):
    install_torch("2.13.0")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SystemExit, match=r"needs a C\+\+20 compiler, and none was found"):
        backend.get_requires_for_build_wheel()
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(SystemExit, match="'no-such-compiler -m64' cannot be found"):
        backend.get_requires_for_build_wheel()


@pytest.mark.parametrize(
    ("choice", "torch_cuda", "is_built"),
    [
        ("auto", None, False),
        ("auto", "13.0", True),
        ("", "13.0", True),
        ("on", None, True),
        ("off", "13.0", False),
    ],
)
def test_when_cuda_is_built(probe, nvcc, choice, torch_cuda, is_built):
    found = probe.Torch(Path(), "2.13.0", torch_cuda)
    expected = probe.Toolkit(nvcc, ("75", "90", "100", "120")) if is_built else None
    assert probe.choose_toolkit(choice, "", found) == expected


@pytest.mark.parametrize("spelling", ["90;75", "75, 90", "7.5 9.0"])
def test_architectures_asked_for(probe, nvcc, spelling):
    assert probe.choose_archs(nvcc, spelling) == ("75", "90")


def test_architecture_that_the_toolkit_lacks(probe, nvcc):
    with pytest.raises(
        probe.BuildError, match=r"70, which nvcc 13\.0 .*CUDA 12 is the last that supports 70"
    ):
        probe.choose_toolkit("on", "70;75", None)


@pytest.mark.parametrize("choice", ["auto", "on"])
def test_nvcc_of_a_newer_cuda_than_torch(probe, nvcc, choice):
    older = probe.Torch(Path(), "2.10.0+cu128", "12.8")
    with pytest.raises(
        probe.BuildError, match=r"newer than the CUDA 12\.8 of torch .*CUDA 13\.0.*CUDA 12 toolkit"
    ):
        probe.choose_toolkit(choice, "", older)
    assert probe.choose_toolkit("off", "", older) is None
    newer = probe.Torch(Path(), "2.15.0+cu132", "13.2")
    assert probe.choose_toolkit(choice, "75", newer) == (nvcc, ("75",))
    assert probe.choose_toolkit(choice, "75", newer._replace(cuda="14.0")) == (nvcc, ("75",))


def test_cuda_asked_for_without_a_toolkit(probe, monkeypatch):
    monkeypatch.setattr(probe, "find_nvcc", lambda: None)
    assert probe.choose_toolkit("auto", "", probe.Torch(Path(), "2.13.0", "13.0")) is None
    with pytest.raises(probe.BuildError, match="nvcc was not found"):
        probe.choose_toolkit("on", "", None)


def test_cuda_choice_that_does_not_exist(backend, monkeypatch, install_torch):
    install_torch("2.13.0")
    monkeypatch.setenv("PTD_EXT_CUDA", "maybe")
    with pytest.raises(SystemExit, match="must be auto, on or off; got 'maybe'"):
        backend.get_requires_for_build_wheel()


def test_the_licence_is_that_of_all_files():
    """No code of others is bundled, whose licence would have to be named."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'license = "BSD-3-Clause"\n' in project
    assert 'license-files = ["LICENSE"]\n' in project
    assert not list((ROOT / "ptd_ext").rglob("vendor"))
    assert not list((ROOT / "ptd_ext").rglob("*.min.js"))
