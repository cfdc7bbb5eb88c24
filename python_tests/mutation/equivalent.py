"""Mutants that no test can see: file, part of the line, what it becomes (or ""), and the reason."""

EQUIVALENT: list[tuple[str, str, str, str]] = [
    ("noise/_logits.py", "rows.split(max(1, 4 * _BLOCK", "", "how many rows are read at once"),
]
