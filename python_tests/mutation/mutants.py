"""Single-point mutants of C++, CUDA and Python sources, found by rules in the text.

A mutant is one operator, constant or statement changed. It is named by its file and the text of its
line, not by a number, so that statements about it stay true when lines above it move.
"""

from __future__ import annotations

import io
import random
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Text in the code -> its replacement. Spaces tell operators from templates and pointers.
RULES = {
    "comparison at its bound": {" <= ": " < ", " < ": " <= ", " >= ": " > ", " > ": " >= "},
    "comparison": {" == ": " != ", " != ": " == ", " is None": " is not None"},
    "sign": {" + ": " - ", " - ": " + ", " += ": " -= "},
    "factor or denominator": {" * ": " / ", " / ": " * ", " *= ": " /= "},
    "condition": {" && ": " || ", " || ": " && ", " and ": " or ", " or ": " and "},
    "constant": {"T(0)": "T(1)", "T(1)": "T(2)", " 1)": " 2)", "[0]": "[1]", "[-1]": "[0]"},
    "choice": {
        "std::min": "std::max", "std::max": "std::min", "max_of(": "min_of(", ".amax(": ".amin(",
        ".argmax(": ".argmin(", "stable=True": "stable=False",
        "descending=True": "descending=False",
        "= True": "= False", "= False": "= True", " not in ": " in ", " if not ": " if ",
    },
}  # fmt: skip
# Margins and tolerances, which become zero. A constant of C++ is dropped where it is used.
MARGINS = re.compile(r"\bk\w*(Tolerance|Rounding|Margin)\b|\b\d+(\.\d+)?e-\d+\b|[-+] 1\b(?![.\w])")
# Whole lines that may be dropped: barriers, and state that is restored.
DROPPED = re.compile(
    r"^\s*(__sync(threads|warp)\(.*\);|__threadfence\(\);"
    r"|\S*(load_state_dict|set_rng_state|_?restore\w*|setstate|seek|flush|copy_|train|eval|clear)"
    r"\(.*\)|self\.\w+ = \w*(state|saved|kept|before)\b.*)\s*$"
)
# Changes of these lines show in time or memory, in texts, or not at all.
NO_BEHAVIOUR = re.compile(
    r"^\s*(#|using|template|constexpr|static constexpr|static_assert|@|import|from|assert|raise)"
    r"|_work\(|kWorth|bytes_for|reserve\(|emplace\(|__launch_bounds__|#pragma|f\"|size_t\("
)


class LineRemovedError(ValueError):
    """The line of a mutant is not in its file any more."""


@dataclass(frozen=True)
class Mutant:
    file: str
    rule: str
    line: str  # the text of the line, stripped
    number: int  # which of the equal lines of the file
    column: int  # in `line`
    before: str
    after: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        lines = path.read_text().splitlines(keepends=True)
        equal = [i for i, text in enumerate(lines) if text.strip() == self.line]
        if len(equal) <= self.number:
            raise LineRemovedError(f"{self.file} has no line {self.line!r} any more.")
        at = equal[self.number]
        start = len(lines[at]) - len(lines[at].lstrip()) + self.column
        end = start + len(self.before)
        if lines[at][start:end] != self.before:
            raise ValueError(f"{self.file}: {self.before!r} is not where it was found.")
        lines[at] = lines[at][:start] + self.after + lines[at][end:]
        path.write_text("".join(lines))


def _without_comments(path: Path, text: str) -> list[str]:
    """Lines with the same columns, in which comments and strings are blank."""
    if path.suffix != ".py":
        blank = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
        text = blank.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        return _portable(text.splitlines())
    lines = [list(line) for line in text.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        (top, left), (bottom, right) = token.start, token.end
        for row in range(top, bottom + 1):
            first = left if row == top else 0
            last = right if row == bottom else len(lines[row - 1])
            lines[row - 1][first:last] = " " * (last - first)
    return ["".join(line) for line in lines]


def _portable(lines: list[str]) -> list[str]:
    """Code for one instruction set is not built here."""
    kept, special = [], []
    for line in lines:
        if line.startswith("#if"):
            special.append("AVX" in line or "__clang__" in line)
        elif line.startswith(("#elif", "#else")) and special:
            special[-1] = special[-1] and line.startswith("#elif")
        elif line.startswith("#endif") and special:
            special.pop()
        kept.append("" if any(special) else line)
    return kept


def mutants_of(root: Path, path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = path.read_text()
    file = path.relative_to(root).as_posix()
    seen: dict[str, int] = defaultdict(int)
    for original, code in zip(text.splitlines(), _without_comments(path, text), strict=True):
        line = original.strip()
        number, seen[line] = seen[line], seen[line] + 1
        if not code.strip() or NO_BEHAVIOUR.search(original):
            continue
        indent = len(original) - len(original.lstrip())
        if DROPPED.match(code):
            after = "pass" if path.suffix == ".py" else ";"
            yield Mutant(file, "statement", line, number, 0, line, after)
        for found in MARGINS.finditer(code):
            after = "0" if found[0][0] not in "+-" else f"{found[0][0]} 0"
            yield Mutant(file, "margin", line, number, found.start() - indent, found[0], after)
        for rule, changes in RULES.items():
            for before, after in changes.items():
                for found in re.finditer(re.escape(before), code):
                    yield Mutant(file, rule, line, number, found.start() - indent, before, after)


def choose(root: Path, globs: list[str], count: int, seed: int) -> list[Mutant]:
    """Some mutants, as evenly from all rules and files as can be, the same for the same seed."""
    generator = random.Random(seed)
    found: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted(path for glob in globs for path in root.glob(glob)):
        for mutant in mutants_of(root, path):
            found[mutant.rule].append(mutant)
    rules = list(found.values())
    generator.shuffle(rules)
    for mutants in rules:
        generator.shuffle(mutants)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(rules):
        for mutants in rules:
            if mutants and len(chosen) < count:
                # A file that has been drawn less often comes first.
                drawn = [mutant.file for mutant in chosen]
                mutants.sort(key=lambda mutant: drawn.count(mutant.file))
                chosen.append(mutants.pop(0))
    return chosen
