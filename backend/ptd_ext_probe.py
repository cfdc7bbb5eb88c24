"""Finds what a build needs, or reports what is missing.

The build backend imports this module; CMake runs it as a script and reads `NAME=value` lines, so
both see the same torch and the same CUDA toolkit and give the same errors.
"""

import argparse
import os
import re
import runpy
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OLDEST_TORCH = "2.10"
USUAL_ARCHS = ("70", "75", "80", "86", "89", "90", "100", "120")
# First CUDA toolkit with each architecture; those below 75 left with CUDA 13.
FIRST_TOOLKIT = {"75": "10.0", "80": "11.0", "86": "11.1", "87": "11.4", "89": "11.8", "90": "11.8"}
FIRST_TOOLKIT |= {"100": "12.8", "120": "12.8", "103": "12.9", "121": "12.9"}
FIRST_TOOLKIT |= {"88": "13.0", "110": "13.0"}


class BuildError(Exception):
    """A build that cannot work; the message names the cause and the remedy."""


class Torch(NamedTuple):
    """An installed torch, described without importing it."""

    folder: Path
    version: str
    cuda: str | None

    @property
    def is_usable(self) -> bool:
        """Whether the headers have the stable ABI that the operators are written in."""
        return release(self.version) >= release(OLDEST_TORCH)


class Toolkit(NamedTuple):
    """The CUDA compiler and the architectures to compile for, oldest first."""

    nvcc: str
    archs: tuple[str, ...]


def release(version: str) -> tuple[int, ...]:
    """Major and minor number: enough to order torch's releases."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def find_torch() -> Torch:
    """The torch whose headers are used; raises BuildError if there is none, or only an old one."""
    found = list(installed_torches())
    for torch in found:
        if torch.is_usable:
            return torch
    if found:
        raise BuildError(
            f"ptd_ext needs torch {OLDEST_TORCH} or newer, but torch {found[0].version} is "
            f'installed in {found[0].folder}: upgrade it with `pip install "torch>={OLDEST_TORCH}"`'
            " or omit --no-build-isolation."
        )
    raise BuildError(
        f"ptd_ext needs torch to build, and {sys.executable} has none: install torch "
        f"{OLDEST_TORCH} or newer first or omit --no-build-isolation."
    )


def installed_torches() -> Iterator[Torch]:
    """First what this process can import, then the environment being installed into."""
    specs = [find_spec("torch")]
    specs += [PathFinder.find_spec("torch", [folder]) for folder in target_site_packages()]
    for spec in specs:
        if spec and spec.origin:  # a folder that happens to be called torch has no origin
            folder = Path(spec.origin).parent
            about = runpy.run_path(str(folder / "version.py"))
            yield Torch(folder, about["__version__"], about.get("cuda"))


def target_site_packages() -> list[str]:
    """Where the environment being installed into keeps packages, even under build isolation.

    pip isolates by hiding these folders from sys.path but runs the same interpreter, which still
    knows them. uv and build run the interpreter of a temporary environment; the one being installed
    into is then found through PATH, if it is activated.
    """
    folders = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    for prefix in (Path(entry).parent for entry in os.get_exec_path()):
        if (prefix / "pyvenv.cfg").exists():
            folders += map(str, prefix.glob("lib/python*/site-packages"))
    return list(dict.fromkeys(folders))


def check_compiler() -> None:
    """Raise BuildError without a C++ compiler (on Windows CMake finds Visual Studio by itself)."""
    if os.name == "nt":
        return
    asked = os.environ.get("CXX")
    if asked:
        if not shutil.which(shlex.split(asked)[0]):
            raise BuildError(f"CXX must name a C++ compiler; {asked!r} cannot be found.")
    elif not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise BuildError(
            "ptd_ext needs a C++20 compiler, and none was found: install one, such as g++ 11 or "
            "clang 14 or newer, or name it in the environment variable CXX."
        )


def choose_toolkit(choice: str, archs: str, torch: Torch | None) -> Toolkit | None:
    """The compiler of the CUDA kernels, or None for a build without them.

    `auto` requires nvcc and a CUDA torch, so that users of a CPU torch do not wait for kernels that
    they cannot run.
    """
    choice = choice or "auto"
    if choice not in ("auto", "on", "off"):
        raise BuildError(f"PTD_EXT_CUDA must be auto, on or off; got {choice!r}.")
    if choice == "off" or (choice == "auto" and not (torch and torch.cuda)):
        return None
    nvcc = find_nvcc()
    if nvcc:
        check_toolkit(nvcc, torch)
        return Toolkit(nvcc, choose_archs(nvcc, archs))
    if choice == "auto":
        return None
    raise BuildError(
        "PTD_EXT_CUDA=on needs the CUDA compiler, and nvcc was not found: put it on PATH, "
        "name it in CUDACXX, or set PTD_EXT_CUDA=off."
    )


def check_toolkit(nvcc: str, torch: Torch | None) -> None:
    """Raise BuildError if nvcc is of a newer major version of CUDA than torch.

    Its kernels need a driver of that version. Torch runs with older ones, on which the build would
    succeed and every launch fail. Drivers run kernels of all older versions.
    """
    version = nvcc_version(nvcc)
    if not (version and torch and torch.cuda) or release(version)[0] <= release(torch.cuda)[0]:
        return
    major = release(torch.cuda)[0]
    raise BuildError(
        f"nvcc must not be newer than the CUDA {torch.cuda} of torch {torch.version}; {nvcc} is of "
        f"CUDA {version}, and its kernels fail on drivers that this torch supports: name the nvcc "
        f"of a CUDA {major} toolkit in CUDACXX, install a torch for CUDA {release(version)[0]}, or "
        "set PTD_EXT_CUDA=off."
    )


def nvcc_version(nvcc: str) -> str | None:
    """Major and minor version of an nvcc, such as 13.0."""
    found = re.search(r"release ([\d.]+)", ask(nvcc, "--version"))
    return found.group(1) if found else None


def find_nvcc() -> str | None:
    """Search the places that CMake searches, in the same order."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [
        os.environ.get("CUDACXX"),
        "nvcc",
        *(f"{home}/bin/nvcc" for home in homes if home),
    ]
    return next(filter(None, (shutil.which(path) for path in candidates if path)), None)


def choose_archs(nvcc: str, asked: str) -> tuple[str, ...]:
    """The requested architectures (75;80 or 7.5,8.0), or the usual ones that this nvcc supports."""
    known = sorted(re.findall(r"compute_(\d+)", ask(nvcc, "--list-gpu-arch")), key=int)
    archs = re.split(r"[;,\s]+", asked.replace(".", "").strip(";, "))
    if archs == [""]:
        archs = [arch for arch in USUAL_ARCHS if arch in known]
    missing = [arch for arch in archs if arch not in known]
    if missing:
        raise BuildError(
            f"PTD_EXT_CUDA_ARCHS contains {', '.join(missing)}, which nvcc "
            f"{nvcc_version(nvcc) or nvcc} does not support ({where_is(missing[0])}): "
            f"choose from {', '.join(known)} or use another CUDA toolkit."
        )
    return tuple(sorted(set(archs), key=int))


def where_is(arch: str) -> str:
    """Name the CUDA toolkits that compile for an architecture."""
    if arch in FIRST_TOOLKIT:
        return f"{arch} needs CUDA {FIRST_TOOLKIT[arch]} or newer"
    if arch.isdigit() and 50 <= int(arch) < 75:
        return f"CUDA 12 is the last that supports {arch}"
    return f"ptd_ext does not know the architecture {arch}"


def ask(*command: str) -> str:
    """The standard output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print the build settings for CMake."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cuda", default="auto")
    parser.add_argument("--archs", default="")
    arguments = parser.parse_args()
    try:
        torch = find_torch()
        toolkit = choose_toolkit(arguments.cuda, arguments.archs, torch)
    except BuildError as error:
        sys.exit(str(error))
    print(f"TORCH_OLDEST={OLDEST_TORCH}")
    print(f"TORCH_VERSION={torch.version}")
    print(f"TORCH_DIR={torch.folder.as_posix()}")
    print(f"NVCC={toolkit.nvcc if toolkit else ''}")
    print(f"CUDA_ARCHS={' '.join(toolkit.archs) if toolkit else ''}")


if __name__ == "__main__":
    main()
