"""The pictures of a page: within it, or in a folder beside it if they are too many."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

from ptd_ext.utils.png import data_url

MAX_INSIDE = 50 << 20  # characters of all pictures in the page
_NAME = re.compile(r"[0-9a-f]{32}\.png")  # the first digits of the SHA-256 of the file


def pictures_folder(page: Path) -> Path:
    """The folder beside a page that holds its pictures."""
    return page.with_name(f"{page.stem}_pictures")


class Pictures:
    """Collects pictures, and chooses where they are stored once their size is known.

    Args:
        page: path of the page.
        limit: maximum of the characters that pictures take in the page; `MAX_INSIDE` by default.
    """

    def __init__(self, page: Path, limit: int | None = None) -> None:
        self._folder = pictures_folder(page)
        self._limit = MAX_INSIDE if limit is None else limit
        self._held: list[tuple[dict[str, Any], bytes]] = []
        self._size = 0
        self._written: set[str] = set()

    @property
    def beside(self) -> bool:
        """Whether there are pictures in the folder."""
        return bool(self._written)

    def add(self, content: dict[str, Any], png: bytes) -> None:
        """Set `picture` of a sample's content, at the latest in :meth:`finish`."""
        self._held.append((content, png))
        self._size += 4 * len(png) // 3
        if self._size <= self._limit:
            return
        if not self._written:
            warnings.warn(
                f"The pictures of the page take more than {self._limit >> 20} MB, and are written "
                f"to {self._folder} beside it: keep both together.",
                stacklevel=2,
            )
            self._folder.mkdir(exist_ok=True)
        for each, picture in self._held:
            each["picture"] = f"{self._folder.name}/{self._write(picture)}"
        self._held = []

    def finish(self) -> None:
        """Put pictures that are not in the folder into the page."""
        for content, png in self._held:
            content["picture"] = data_url(png)

    def remove_others(self) -> None:
        """Remove pictures of an earlier page of the same name."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                if _NAME.fullmatch(name) and name not in self._written:
                    (self._folder / name).unlink()
            self._folder.rmdir()  # fails, as it should, while there are pictures

    def _write(self, png: bytes) -> str:
        name = f"{sha256(png).hexdigest()[:32]}.png"
        if name not in self._written:
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, suffix=".part")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(png)
                os.chmod(temporary, 0o644)
                os.replace(temporary, self._folder / name)
            except BaseException:
                os.unlink(temporary)
                raise
            self._written.add(name)
        return name
