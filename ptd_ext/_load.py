"""Loads the compiled operators into torch, after checking that this torch can run them."""

from pathlib import Path
from pkgutil import extend_path
from types import ModuleType

import torch

import ptd_ext


def load() -> None:
    """Register the operators with torch; raises ImportError if this torch cannot run them."""
    compiled = _import_compiled()
    _check_torch(torch.__version__, compiled.build_info()["torch_oldest"])
    compiled.cpu_isa()  # raises for a wrong PTD_EXT_CPU_ISA now, not at the first loss
    folder = Path(str(compiled.__file__)).parent
    torch.ops.load_library(folder / "_ops_cpu.so")
    cuda = folder / "_ops_cuda.so"
    if torch.version.cuda and cuda.exists():
        torch.ops.load_library(cuda)


def _import_compiled() -> ModuleType:
    # In a clone the source folder hides the installed package, which has the compiled modules.
    ptd_ext.__path__ = extend_path(ptd_ext.__path__, "ptd_ext")
    try:
        from ptd_ext import _C
    except ModuleNotFoundError as error:
        raise ImportError(
            f"ptd_ext in {Path(__file__).parent} has not been compiled; install it with "
            "`pip install .`, or to build in place with `pip install --no-build-isolation -e .`."
        ) from error
    return _C


def _check_torch(running: str, oldest: str) -> None:
    if _release(running) < _release(oldest):
        raise ImportError(
            f"ptd_ext needs torch {oldest} or newer, but torch {running} is installed; "
            f'upgrade it with `pip install "torch>={oldest}"`.'
        )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])
