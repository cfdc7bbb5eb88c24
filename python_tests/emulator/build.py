"""Compile kernel files for the emulator, once per content."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc"
CUDA = CSRC / "cuda"
INCLUDE_DIRS = [HERE, CUDA, CSRC]

COMMON = ["-std=c++20", "-fPIC", "-g1"]

# Kernels type-pun, and must not share template statics, which are shared memory here, with another
# library loaded in the same process.
KERNEL = [
    "-x",
    "c++",
    "-DPTD_CUDA_EMULATOR",
    "-fno-strict-aliasing",
    "-fno-gnu-unique",
    "-fno-exceptions",
]

FAST = ["-O2"]

# Optimised a little, for speed, but no load may move out of its loop: moved past the condition that
# guards it, it would be reported as an access that the source never makes.
CHECKED = [
    "-O1",
    "-fno-tree-loop-im",
    "-fsanitize=thread,bounds,alignment,signed-integer-overflow,integer-divide-by-zero,shift",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
]


class CompileError(Exception):
    """Raised if g++ cannot compile a kernel file; the text is its output."""


def compiler() -> str | None:
    """Path of g++, or None. Its sanitizer calls are what the emulator implements."""
    return shutil.which("g++")


def cache_dir() -> Path:
    """Folder of compiled objects, which may be deleted at any time."""
    default = Path(tempfile.gettempdir()) / f"ptd_ext_emulator_{os.getuid()}"
    path = Path(os.environ.get("PTD_EXT_EMULATOR_CACHE", default))
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def compile_kernels(
    sources: Sequence[Path | str],
    *,
    bindings: str = "",
    include_dirs: Sequence[Path | str] = (),
    defines: Sequence[str] = (),
    check: bool = True,
) -> ctypes.CDLL:
    """Compile kernel files, with their launchers, to a library and load it.

    Functions to be called from Python are `extern "C"` and take pointers, `int64_t` and `double`.
    `bindings` is C++ text that defines such functions; it is compiled with all `sources` included,
    in one translation unit. With `check`, every access to memory is watched; without it the code
    runs several times faster, and strays are found only by guard pages and margins.
    """
    flags = [*COMMON, *KERNEL, *(CHECKED if check else FAST)]
    flags += [f"-I{path}" for path in (*INCLUDE_DIRS, *include_dirs)]
    flags += [f"-D{name}" for name in defines]
    if bindings:
        text = "".join(f'#include "{Path(source).resolve()}"\n' for source in sources) + bindings
        sources = [_write_cached(text)]
    runtime = _runtime()
    objects = _compile_all(sources, flags)
    return ctypes.CDLL(str(_link(objects, [str(runtime), f"-Wl,-rpath,{runtime.parent}"])))


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Load the emulator itself; all kernel libraries share it."""
    return ctypes.CDLL(str(_runtime()))


@functools.cache
def _runtime() -> Path:
    objects = _compile_all(sorted(HERE.glob("runtime/*.cpp")), [*COMMON, "-O2"])
    return _link(objects, ["-ldl", "-lrt"])


def _compile_all(sources: Sequence[Path | str], flags: list[str]) -> list[Path]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda source: _compile(source, flags), sources))


def _compile(source: Path | str, flags: list[str]) -> Path:
    # The preprocessed text holds all that the object depends on, headers included, and with this
    # flag nothing else: not the folder that the compiler was started in.
    text = _gxx([*flags, "-E", "-fno-working-directory", str(source)])
    path = cache_dir() / f"{_digest(text, _version(), *flags)}.o"
    _create(path, [*flags, "-c", str(source)])
    return path


def _link(objects: list[Path], libraries: list[str]) -> Path:
    path = cache_dir() / f"{_digest(*map(str, objects), *libraries)}.so"
    # -z defs: a call that the emulator lacks is an error here, not a crash later.
    options = ["-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic"]
    _create(path, [*options, *map(str, objects), *libraries])
    return path


def _create(path: Path, arguments: list[str]) -> None:
    """Make a file that g++ writes, unless it is there; of several processes one does it."""
    if path.exists():
        return
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        # Under a name of its own first, so that nobody sees half a file.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            _gxx([*arguments, "-o", str(made)])
            made.replace(path)


def _write_cached(text: str) -> Path:
    path = cache_dir() / f"{_digest(text)}.cu"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)
    return path


@functools.cache
def _version() -> str:
    return _gxx(["--version"])


def _gxx(arguments: list[str]) -> str:
    done = subprocess.run([compiler() or "g++", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
    return done.stdout


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
