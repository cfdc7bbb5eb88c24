"""Mutation testing: how many small faults in the sources do the tests see?

python python_tests/mutation/run.py                    # all areas, some hours on two cores
python python_tests/mutation/run.py cpu --count 30     # one area
python python_tests/mutation/run.py --only survived    # again what survived in results.csv
python python_tests/mutation/run.py --only survived --slow    # and with the slow tests
python python_tests/mutation/run.py --seed 3           # another sample
python python_tests/mutation/run.py --report           # the table of scores of results.csv

Mutants are made of a copy of the repository, built where they must be, and given to the tests of
their module and then to those of their area, up to the first that fails. The outcomes are in
results.csv, together with those at first, of tests that had not seen the sample. A survivor is
either noted in equivalent.py, with the reason why no test could see it, or wants a test.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict, fields
from pathlib import Path

from areas import AREAS, Area
from equivalent import EQUIVALENT
from mutants import LineRemovedError, Mutant, choose

import ptd_ext

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# A mutant that takes this many times as long as the sources, and so much more, does not end.
PATIENCE, SECONDS = 5, 300

# An editable install would otherwise be found first.
SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
"""


class Copy:
    """A copy of the repository, with a build of its own if CPU operators are mutated."""

    def __init__(self, root: Path, compiled: bool):
        self.root = root
        self.seconds: dict[tuple[str, ...], float] = {}  # tests on the sources as they are
        tracked = ["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"]
        for name in subprocess.check_output(tracked, text=True).split("\0"):
            if name and (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)  # as of now, so that it is built
        # Apart from the root, which the tests take off the path.
        package = root / "package"
        package.mkdir(exist_ok=True)
        (package / "sitecustomize.py").write_text(SITE)
        if not (package / "ptd_ext").exists():
            (package / "ptd_ext").symlink_to(root / "ptd_ext")
        if not compiled:
            for library in Path(ptd_ext._C.__file__).parent.glob("*.so"):
                shutil.copy2(library, root / "ptd_ext")
            return
        # Half the time of a build, and the same arithmetic.
        cmake = root / "cmake" / "cpu.cmake"
        cmake.write_text(cmake.read_text().replace("-O3", "-O1"))
        pybind11 = [sys.executable, "-m", "pybind11", "--cmakedir"]
        folder = subprocess.check_output(pybind11, text=True).strip()
        self._run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DPTD_EXT_CUDA=off",
                  "-DPTD_EXT_CPU_VARIANTS=portable", f"-Dpybind11_DIR={folder}",
                  f"-DPython_EXECUTABLE={sys.executable}")  # fmt: skip
        if not self.build():
            sys.exit("The sources do not build as they are.")

    def build(self) -> bool:
        built = self._run("cmake", "--build", "build").returncode == 0
        return (
            built
            and self._run("cmake", "--install", "build", "--prefix", "package").returncode == 0
        )

    def test(self, tests: list[str], slow: bool, limit: float | None) -> tuple[bool, str]:
        """Run the tests for `limit` seconds; return if they pass, and the first that fails."""
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        pytest += [*tests, "-m", "not cuda" if slow else "not slow"]
        try:
            done = self._run(*pytest, timeout=limit)
        except subprocess.TimeoutExpired:
            return False, "does not end"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        first = failed[0].split(" - ")[0] if failed else f"exit code {done.returncode}"
        if "CompileError" in done.stdout:
            first = "CompileError"
        return done.returncode in (0, 5), first  # 5: none is left by `not slow`

    def test_area(self, area: Area, slow: bool) -> tuple[bool, str]:
        tests = area.slow if slow else area.tests
        known = self.seconds.get((*tests,))
        limit = None if known is None else SECONDS + PATIENCE * known
        start = time.monotonic()
        found = self.test(tests, slow or area.all_are_slow, limit)
        self.seconds.setdefault((*tests,), time.monotonic() - start)
        return found

    def test_mutant(self, mutant: Mutant, area: Area, slow: bool) -> tuple[bool, str]:
        own = own_test(mutant.file)
        if not slow and (self.root / own).exists():
            passed, first = self.test([own], slow, SECONDS)
            if not passed:
                return passed, first
        return self.test_area(area, slow)

    def outcome(self, mutant: Mutant, area: Area, slow: bool) -> tuple[str, str]:
        path = self.root / mutant.file
        kept = path.read_text()
        try:
            mutant.apply(self.root)
            if area.compiled and not self.build():
                return "does not compile", ""
            passed, first = self.test_mutant(mutant, area, slow)
            if "CompileError" in first:
                return "does not compile", ""
            return ("survived", "") if passed else ("killed", first)
        except LineRemovedError:
            return "line removed", ""
        finally:
            path.write_text(kept)

    def _run(self, *command: object, timeout: float | None = None):
        environment = os.environ | {"PYTHONPATH": str(self.root / "package")}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"PTD_EXT_EMULATOR_CACHE": str(self.root / "emulator_cache")}
        return subprocess.run(
            [str(part) for part in command], cwd=self.root, env=environment, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


def own_test(module: str) -> str:
    """python_tests/a/b/test_c.py for ptd_ext/a/b/_c.py, which is the quickest to fail."""
    path = Path(module.replace("ptd_ext/", "python_tests/", 1))
    return str(path.with_name(f"test_{path.stem.lstrip('_')}.py"))


def reason(mutant: Mutant) -> str | None:
    """Why no test can see it, if that is known."""
    for file, line, after, why in EQUIVALENT:
        if mutant.file.endswith(file) and line in mutant.line and after in ("", mutant.after):
            return why
    return None


KEY = ["seed", "area", *(field.name for field in fields(Mutant))]
NAMES = [*KEY, "at_first", "outcome", "by"]


def read_results(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        why = reason(mutant_of(row))
        if why and row["outcome"] == "survived":
            row |= {"outcome": "equivalent", "by": why}
    return rows


def mutant_of(row: dict[str, str]) -> Mutant:
    numbers = {"number": int(row["number"]), "column": int(row["column"])}
    return Mutant(**{n: row[n] for n in ("file", "rule", "line", "before", "after")}, **numbers)


def write_results(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: [row[n] for n in KEY]))


def report(rows: list[dict[str, str]], by_area: bool = False) -> str:
    """The score of every group or area of a sample: killed of those that are not equivalent."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        name = row["area"] if by_area else AREAS[row["area"]].group
        for group in (name, "all"):
            counts[row["seed"], group][row["outcome"]] += 1
            counts[row["seed"], group]["first runs"] += row["at_first"] != ""
            counts[row["seed"], group]["at first"] += row["at_first"] == "killed"
    lines = [
        "| seed | sources | mutants | equivalent | killed at first | killed | survived | score |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (seed, group), of in sorted(counts.items()):
        judged = of["killed"] + of["survived"]
        share = f"{of['killed'] / judged:.0%}" if judged else ""
        first = of["at first"] if of["first runs"] else "not kept"
        lines.append(
            f"| {seed} | {group} | {judged + of['equivalent']} | {of['equivalent']} "
            f"| {first} | {of['killed']} | {of['survived']} | {share} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", nargs="*", choices=[[], *AREAS], help="all by default")
    parser.add_argument("--count", type=int, help="mutants of each area")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="run those again whose outcome in results.csv is this")
    parser.add_argument("--slow", action="store_true", help="with the slow tests, for survivors")
    parser.add_argument("--copy", type=Path, help="a folder to keep the copy in, for the next run")
    parser.add_argument("--results", type=Path, default=HERE / "results.csv")
    parser.add_argument("--report", action="store_true", help="print the scores, and run nothing")
    parser.add_argument("--by-area", action="store_true", help="report every area")
    given = parser.parse_args()
    if given.report:
        print(report(read_results(given.results), given.by_area))
        return
    work: list[tuple[str, str, Mutant]] = []
    for name in given.area or AREAS:
        count = given.count or AREAS[name].count
        if not given.only:
            chosen = choose(ROOT, AREAS[name].files, count, given.seed)
            work += [(str(given.seed), name, mutant) for mutant in chosen]
    for row in read_results(given.results) if given.only else []:
        has_tests = not given.slow or AREAS[row["area"]].slow
        if row["outcome"] == given.only and row["area"] in (given.area or AREAS) and has_tests:
            work.append((row["seed"], row["area"], mutant_of(row)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(given.copy or Path(folder), any(AREAS[name].compiled for _, name, _ in work))
        tried: set[str] = set()
        for seed, name, mutant in work:
            area, why = AREAS[name], reason(mutant)
            if name not in tried:
                tried.add(name)
                if area.compiled and not copy.build():  # the last mutant is still there
                    sys.exit("The sources do not build as they are.")
                passed, first = copy.test_area(area, given.slow)
                if not passed:  # every mutant would seem to be killed
                    sys.exit(f"The tests of {name} fail on the sources as they are: {first}.")
            outcome, by = ("equivalent", why) if why else copy.outcome(mutant, area, given.slow)
            row = {"seed": seed, "area": name, **asdict(mutant), "at_first": outcome}
            row = {key: str(value) for key, value in row.items()} | {"outcome": outcome, "by": by}
            rows = []
            for other in read_results(given.results):
                if any(other[n] != row[n] for n in KEY):
                    rows.append(other)
                else:
                    row["at_first"] = other["at_first"]
            write_results(given.results, [*rows, row])
            print(f"{outcome:16} {mutant.file}: {mutant.line[:80]}  [{mutant.before} -> "
                  f"{mutant.after}]  {by}", flush=True)  # fmt: skip
    print(report(read_results(given.results), given.by_area))


if __name__ == "__main__":
    main()
