"""Rewrites docstrings as Markdown when the API pages are built: roles, tables, literal blocks.

The docstrings follow Sphinx's conventions, which `help()`, IDEs and PyTorch's own docs share.
"""

import re
from collections.abc import Iterator

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`([\w.]+)`")
RULER = re.compile(r"^ *=+(?: +=+)+ *$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Turns every docstring of the package into Markdown once all modules are loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        for item in walk(pkg):
            if item.docstring:
                item.docstring.value = markdown(item.docstring.value, item)


def walk(item: griffe.Object) -> Iterator[griffe.Object]:
    yield item
    for member in item.members.values():
        if not member.is_alias:
            yield from walk(member)


def markdown(text: str, item: griffe.Object) -> str:
    """The docstring of `item` with links, tables and indented blocks that Markdown understands."""
    text = ROLE.sub(lambda role: f"[`{role[1]}`][{path_of(role[1], item)}]", text)
    text = re.sub(r" ?::$", ":", text, flags=re.MULTILINE)
    blocks = re.split(r"(\n\s*\n)", text)
    return "".join(table(block) if RULER.match(block) else block for block in blocks)


def path_of(name: str, item: griffe.Object) -> str:
    """The full path of a name as a docstring of `item` refers to it."""
    if name.startswith("ptd_ext."):
        return name
    first, *rest = name.split(".")
    try:
        return ".".join([item.resolve(first), *rest])
    except griffe.NameResolutionError:
        return f"ptd_ext.{name}"


def table(block: str) -> str:
    """A simple table of reStructuredText, with or without a head, as one of Markdown."""
    lines = block.strip("\n").split("\n")
    starts = [column.start() for column in re.finditer(r"=+", lines[0])]
    rows: list[list[str]] = []
    rule = f"{' ' * starts[0]}{'|---' * len(starts)}|"
    for line in lines:
        if not RULER.match(line):
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            if cells[0]:
                rows.append(cells)
            else:  # the line continues a cell of the row above
                rows[-1] = [
                    " ".join(filter(None, each)) for each in zip(rows[-1], cells, strict=True)
                ]
    if sum(RULER.match(line) is not None for line in lines) == 2:
        rows.insert(0, [""] * len(starts))
    head, *body = (f"{' ' * starts[0]}| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([head, rule, *body])
