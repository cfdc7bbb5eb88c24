"""Builds the CPU operators with a sanitizer and runs tests of them, in a folder of their own.

python python_tests/sanitizers/run.py address    # out-of-bounds access, undefined behaviour
python python_tests/sanitizers/run.py thread     # races between the threads of an operator

Further arguments are pytest's, instead of the tests that are chosen here. The environment needs
g++, cmake, ninja and pybind11; --build keeps the build in a folder, which makes the next one quick.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Every kernel at sizes around vector and block widths, odd strides, and more than one thread.
TESTS = {
    "address": [
        "python_tests/fuzz/test_operators.py",
        "python_tests/sanitizers/test_every_kernel.py",
        "-m",
        "not slow",
    ],
    "thread": ["python_tests/sanitizers/test_every_kernel.py"],
}
OPTIONS = {
    # Python and torch free little at exit; what they leave is not ours to judge.
    "address": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
    "thread": {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66"},
}
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}

# An editable install would otherwise be found first.
SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
"""


def build(sanitizer: str, folder: Path, package: Path) -> None:
    """Compile the operators and put them beside a copy of the Python files."""
    pybind11 = subprocess.check_output([sys.executable, "-m", "pybind11", "--cmakedir"], text=True)
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DPTD_EXT_CUDA=off"]
    configure += [f"-DPTD_EXT_SANITIZE={sanitizer}", f"-Dpybind11_DIR={pybind11.strip()}"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True)
    install = ["cmake", "--install", folder, "--prefix", package]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    python_files = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "ptd_ext", package / "ptd_ext", ignore=python_files, dirs_exist_ok=True)
    (package / "sitecustomize.py").write_text(SITE)


def run(sanitizer: str, package: Path, arguments: list[str]) -> int:
    runtime = subprocess.check_output(["g++", f"-print-file-name={RUNTIMES[sanitizer]}"], text=True)
    # The sanitizer must be loaded before anything it watches; and libstdc++ beside it, so that it
    # finds the functions that throw.
    library = subprocess.check_output(["g++", "-print-file-name=libstdc++.so"], text=True)
    environment = os.environ | OPTIONS[sanitizer]
    environment |= {"LD_PRELOAD": f"{runtime.strip()} {library.strip()}"}
    environment |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    # ThreadSanitizer's shadow memory has no room for addresses as random as a new kernel's.
    fixed_addresses = ["setarch", platform.machine(), "-R"] if sanitizer == "thread" else []
    # Not captured: a report ends the process, and would be lost with pytest's output.
    pytest = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"]
    return subprocess.run([*fixed_addresses, *pytest, *arguments], env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sanitizer", choices=sorted(TESTS))
    parser.add_argument("--build", type=Path, help="a folder to build in and to keep")
    given, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.build or Path(scratch, "build")
        build(given.sanitizer, folder, Path(scratch, "package"))
        os.chdir(ROOT)
        package = Path(scratch, "package")
        return run(given.sanitizer, package, arguments or TESTS[given.sanitizer])


if __name__ == "__main__":
    sys.exit(main())
