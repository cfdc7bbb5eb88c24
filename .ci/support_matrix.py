"""Tries one build on several versions of torch and Python, and prints the support matrix.

    .ci/support_matrix.py PYTHON... > docs/support_matrix.md

Every PYTHON is the interpreter of an environment with torch and the packages that the tests need.
The first one builds a wheel, and all of them run its operators. Interpreters of the same Python
version use that wheel as it is; the others build `_C`, the one module that depends on the version
of Python, and put the operators of the first beside it. The tests are those of the operators,
modules and estimators, without the slow ones.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ("ops", "nmf", "transition", "noise")
DESCRIBE = """
import json, platform, torch
print(json.dumps([platform.python_version(), torch.__version__, platform.system(),
                  platform.machine()]))
"""
NOT_TRIED = (
    ("3.14", "any", "Linux x86_64"),
    ("any", "any", "Linux aarch64"),
    ("any", "any", "macOS arm64"),
)


def build(python: str, folder: Path) -> Path:
    """A wheel made by this interpreter with the torch beside it, unpacked."""
    pip = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    options = ["-Ccmake.define.PTD_EXT_CUDA=off", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *options], check=True, stdout=sys.stderr)
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder / "unpacked", "zip")
    return folder / "unpacked"


def tested(python: str, package: Path) -> str:
    """The outcome of pytest for the package under this interpreter, in one line."""
    tests = [str(ROOT / "python_tests" / name) for name in TESTS]
    command = [python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    result = subprocess.run(
        [*command, "-n", "2", "--dist", "loadfile"],
        cwd=package,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    print(*result.stdout.splitlines()[-25:], sep="\n", file=sys.stderr)
    counts = re.findall(r"(\d+) (passed|failed|errors?)", result.stdout.splitlines()[-1])
    return ", ".join(f"{int(number):,} {word}" for number, word in counts)


def main(pythons: list[str]) -> None:
    """Print a row for every interpreter, then the versions that nobody has tried."""
    print("| Python | torch | platform | tests |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        first: Path | None = None
        packages: dict[str, Path] = {}
        for number, python in enumerate(pythons):
            said = subprocess.run([python, "-c", DESCRIBE], capture_output=True, check=True)
            version, torch, system, machine = json.loads(said.stdout)
            minor = version.rsplit(".", 1)[0]
            if minor not in packages:
                folder = Path(scratch, str(number))
                folder.mkdir()
                packages[minor] = build(python, folder)
                if first is None:
                    first = packages[minor]
                else:
                    shutil.copy(first / "ptd_ext" / "_ops_cpu.so", packages[minor] / "ptd_ext")
            result = tested(python, packages[minor])
            print(f"| {version} | {torch} | {system} {machine} | {result} |", flush=True)
    for python, torch, platform in NOT_TRIED:
        print(f"| {python} | {torch} | {platform} | not run |")


if __name__ == "__main__":
    main(sys.argv[1:])
