"""How the page shows one row: as a picture, as text or as a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Sample:
    """The view of a row on the page: exactly one of the three.

    Attributes:
        png: a PNG file; the page shows it about 200 pixels wide.
        text: plain text.
        row: the values of a table's row by column name.
    """

    png: bytes | None = None
    text: str | None = None
    row: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("png", "text", "row") if getattr(self, name) is not None]
        if len(given) != 1:
            names = " and ".join(given) or "none"
            raise ValueError(f"Sample needs exactly one of png, text and row; got {names}.")
        if self.png is not None and not (
            self.png.startswith(_PNG_SIGNATURE) and len(self.png) > 32
        ):
            raise ValueError("png must hold the bytes of a PNG file; they are not PNG.")
