"""CUDA kernels compiled for a V100 by NVRTC and ptxas, from NVIDIA's wheels, without a GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CUDA = Path(__file__).resolve().parents[2] / "csrc" / "cuda"
ARCH = "70"


@functools.cache
def full_text(source: Path) -> str:
    """The text of a file and of all files of csrc/ that it includes."""
    texts, todo, seen = [], [source], {source}
    while todo:
        file = todo.pop()
        texts.append(file.read_text())
        for name in re.findall(r'#include "([^"]+)"', texts[-1]):
            beside = (folder / name for folder in (file.parent, CUDA, CUDA.parent))
            found = next((path.resolve() for path in beside if path.exists()), None)
            if found and found not in seen:
                seen.add(found)
                todo.append(found)
    return "\n".join(texts)


def defined_kernels(text: str) -> list[str]:
    """Names of the kernels that a text defines, not of those that it declares or instantiates."""
    definition = r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\("
    return re.findall(definition, text)


def choose_file(kernel: str, sources: dict[Path, str]) -> Path | None:
    """Choose the file to compile name<arguments> in: one that includes the arguments' classes.

    A file with launchers that NVRTC skips comes first, then the one that defines the kernel.
    """
    name, _, template_arguments = kernel.partition("<")
    classes = re.findall(r"\b[A-Z]\w*", template_arguments)
    own = [path for path, text in sources.items() if name in defined_kernels(text)]
    launching = [path for path, text in sources.items() if "ifndef __CUDACC_RTC__" in text]
    for path in [path for path in launching if path.suffix == ".cu"] + own:
        text = full_text(path)
        if name in defined_kernels(text) and all(re.search(rf"\b{c}\b", text) for c in classes):
            return path
    return None


def package_folder(name: str) -> Path:
    """The folder in which a wheel of NVIDIA's has its files."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{name}")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f'nvidia.{name} is missing: pip install -c constraints.txt ".[cuda-check]"')
    return Path(spec.submodule_search_locations[0])


def compile_to_ptx(source: Path, kernels: list[str]) -> tuple[str, dict[str, str]]:
    """PTX of these kernels of one file for sm_70, by NVRTC, and their names by those in the PTX."""
    nvrtc = ctypes.CDLL(str(next((package_folder("cuda_nvrtc") / "lib").glob("libnvrtc.so.1*"))))
    program = ctypes.c_void_p()
    text = source.read_text() + "\nnamespace ptd {}\nusing namespace ptd;\n"
    names = text.encode(), str(source).encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), *names, 0, None, None)
    for kernel in kernels:
        nvrtc.nvrtcAddNameExpression(program, kernel.encode())
    # constexpr functions need no annotation under nvcc; -default-device has that effect here.
    options = [f"-arch=compute_{ARCH}", "-std=c++20", "-default-device"]
    options += [f"-I{folder}" for folder in (CUDA, CUDA.parent)]
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), array)

    def fetch(what: str) -> str:
        size = ctypes.c_size_t()
        nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc[f"nvrtcGet{what}"](program, buffer)
        return buffer.value.decode()

    log = fetch("ProgramLog")
    if failed:
        sys.exit(f"{source.name} does not compile under NVRTC for sm_{ARCH}:\n{log}")
    if log.strip():
        print(log, file=sys.stderr)
    mangled = {}
    for kernel in kernels:
        lowered = ctypes.c_char_p()
        nvrtc.nvrtcGetLoweredName(program, kernel.encode(), ctypes.byref(lowered))
        mangled[lowered.value.decode()] = kernel
    return fetch("PTX"), mangled


def assemble(ptx: str, source: Path) -> str:
    """The report of ptxas on the kernels in `ptx`."""
    ptxas = package_folder("cuda_nvcc") / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.ptx"
        file.write_text(ptx)
        command = [ptxas, f"-arch=sm_{ARCH}", "-v", file, "-o", file.with_suffix(".cubin")]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ptxas fails on {source.name}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
