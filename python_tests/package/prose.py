"""All prose of the project in one list: help, messages, docstrings, comments, names and pages.

python python_tests/package/prose.py                 # all of them
python python_tests/package/prose.py --broken        # those that break a rule of style
pytest --messages FILE                               # error messages as the tests see them
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import ptd_ext
from ptd_ext.cli import COMMANDS, main

PACKAGE = Path(ptd_ext.__file__).parent
ROOT = Path(__file__).parents[2]

FRAGMENT = "a fragment that begins with 'of'"
# What the documentation of PyTorch or scikit-learn would not write.
RULES = {
    FRAGMENT: r"^(?-i:of)\b|^\w+: of\b",
    "own": r"\bone's own\b|\bdata of (your|their) own\b",
    "whole number": r"\bwhole[- ]numbers?\b",
    "tell": r"\btells?\b(?!.* (apart|from)\b)|\btold\b(?! apart)",
    "say": r"\b(says?|said|saying)\b",
    "refuse": r"\brefus(es?|ed|ing|als?)\b",
    "begin anew": r"\banew\b",
    "mend": r"\bmend(s|ed|ing)?\b",
    "put back": r"\bputs? back\b",
    "distrust": r"\bdistrust\b",
    "is no": r"(?<!\bthere )\b(is|are|was|were) (?-i:no|none)\b(?! (more|less|\w+er)\b)",
    "takes none": r"\btakes? none\b",
    "sentence": r"\bsentences?\b(?!-transformers)",
    "whole or not at all": r"\bwhole or not at all\b",
    # As nouns, and in names of limits: max, min, maximum, minimum.
    "most or least": r"^(most|least)( (?!frequent|common|doubtful|probable|squares)\w+)?$"
    r"|\b(the|their|its) (most|least)(?= (that|which|in|of|to)\b|[.,;:]|$)|\bfewest\b",
    "at chance": r"\b(at|for) chance\b",
}


class Text(NamedTuple):
    kind: str  # help, message, docstring, comment, name or page
    place: str
    text: str


def everything() -> Iterator[Text]:
    for command in ["", *COMMANDS]:
        yield from help_of(command)
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = str(path.relative_to(PACKAGE.parent))
        yield from strings(source, name)
        yield from comments(source, name)
        yield from names(source, name)
    for path in sorted(PACKAGE.rglob("*.html")):
        shown = re.sub(r"\{\{.*?\}\}", "{}", path.read_text(), flags=re.DOTALL)
        shown = re.sub(r"\{[%#].*?[%#]\}|<[^>]*>", "", shown, flags=re.DOTALL)
        yield from paragraphs("message", str(path.relative_to(PACKAGE.parent)), shown)
    top = ("README", "CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")
    pages = [ROOT / f"{name}.md" for name in top]
    for path in [*pages, *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.exists():
            yield from paragraphs(
                "page", str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            )


def help_of(command: str) -> Iterator[Text]:
    """Each entry of the help of a command, on a terminal so wide that no line breaks."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "10000"
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([command, "--help-all"] if command else ["--help-all"])
    finally:
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
    for number, line in enumerate(out.getvalue().splitlines(), 1):
        text = re.split(r"\s{2,}", line.strip())[-1]
        if text:
            yield Text("help", f"ptd-ext {command} --help-all:{number}".replace("  ", " "), text)


def strings(source: str, name: str) -> Iterator[Text]:
    """Docstrings by paragraph, and every other string of several words, with {} for its values."""
    tree = ast.parse(source)
    skipped = set()  # docstrings, and the pieces of formatted strings
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.add(first.value)
                yield from paragraphs("docstring", name, str(first.value.value), first.lineno)
        if isinstance(node, ast.JoinedStr):
            skipped.update(ast.walk(node))
            skipped.discard(node)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        else:
            continue
        if " " in text.strip():
            start = "… " if text.startswith(" ") else ""
            yield Text("message", f"{name}:{node.lineno}", start + " ".join(text.split()))


def comments(source: str, name: str) -> Iterator[Text]:
    """The comments, those of adjacent lines as one."""
    found = io.StringIO(source).readline
    blank = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(found):
        if token.type == tokenize.COMMENT:
            code = token.line[: token.start[1]].strip()
            blank[token.start[0]] = ("\N{NULL}" if code else "") + token.string.lstrip("#: ")
    yield from paragraphs("comment", name, "\n".join(blank[1:]))


def names(source: str, name: str) -> Iterator[Text]:
    """The names of functions, classes, arguments and variables, their words apart."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            continue
        found = [getattr(node, kind, None) for kind in ("name", "arg", "id")]
        for each in found:
            if not isinstance(each, str) or each == "tell":  # a method of files
                continue
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", each).split()
            yield Text("name", f"{name}:{getattr(node, 'lineno', 0)}", " ".join(words))


def paragraphs(kind: str, name: str, text: str, first: int = 1) -> Iterator[Text]:
    """Each paragraph, entry of a list or row of a table as one text."""
    parts: list[str] = []
    start = first
    for number, line in enumerate([*text.split("\n"), ""], first):
        if parts and (not line.strip() or re.match(r"\0|\s*([|*>-] |#|\w+: )", line)):
            yield Text(kind, f"{name}:{start}", " ".join(parts))
            parts = []
        if line.strip():
            start = start if parts else number
            parts.append(line.strip(" \0"))


def broken(texts: list[Text]) -> Iterator[tuple[str, Text]]:
    """Each rule with each text that breaks it."""
    for rule, pattern in RULES.items():
        found = re.compile(pattern, re.IGNORECASE)
        for text in texts:
            if found.search(text.text) and (rule, text.kind) != (FRAGMENT, "name"):
                yield rule, text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broken", action="store_true", help="only texts that break a rule")
    parser.add_argument("kinds", nargs="*", help="help, message, docstring, comment, name, page")
    given = parser.parse_args()
    texts = [text for text in everything() if not given.kinds or text.kind in given.kinds]
    if given.broken:
        for rule, text in broken(texts):
            print(f"{text.place}\t[{rule}]\t{text.text}")
    else:
        for text in texts:
            print(f"{text.kind}\t{text.place}\t{text.text}")
    sys.stdout.flush()
