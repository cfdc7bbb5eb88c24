"""Damages files of every reader at random: `python python_tests/fuzz/files.py --cases 5000`.

A case loads, or raises an error that names the file; a crash, another exception, more memory
than the limit or more processor time than the limit is a fault. Cases are a function of the seed,
so that a fault comes again with `--only "<reader>" --first <number> --cases 1`.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)

from fuzz.limited import MEGABYTE, Outcome, run_cases
from fuzz.readers import readers

# The files have a megabyte at most; decoding an image maps the library's own buffers too.
MEMORY = 128 * MEGABYTE
SECONDS = 4.0


def fuzz(
    cases: int, seed: int, *, first: int = 0, only: str = ""
) -> Iterator[tuple[str, int, Outcome]]:
    """Reader, number and outcome of so many cases, which the readers take in turn."""
    known = {name: r for name, r in readers().items() if only in ("", name)}
    names = sorted(known)
    chosen = [(names[k % len(names)], first + k // len(names)) for k in range(cases)]
    with tempfile.TemporaryDirectory() as folder:

        def run(case: tuple[str, int]) -> Outcome:
            name, number = case
            return known[name].run(Path(folder), name, f"{seed}/{name}/{number}")

        for (name, number), outcome in run_cases(run, chosen, memory=MEMORY, seconds=SECONDS):
            yield name, number, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for name, number, outcome in fuzz(
        arguments.cases, arguments.seed, first=arguments.first, only=arguments.only
    ):
        counts[name, outcome.kind] += 1
        if outcome.kind == "fault":
            print(f"{name} {number}: {outcome.text}", flush=True)
    print(f"{'reader':16} loaded message fault")
    for name in sorted({name for name, _ in counts}):
        print(f"{name:16}", *(f"{counts[name, k]:7}" for k in ("loaded", "message", "fault")))
    total = Counter(kind for (_, kind), count in counts.items() for _ in range(count))
    print(f"{sum(total.values()):,} cases: {dict(total)}")
    return 1 if total["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
