"""The log: lines on the screen, records in `metrics.jsonl`, TensorBoard on request."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from ptd_ext.utils.atomic_files import NotWrittenError, write_text


class Log:
    """The log of the first rank; others have a `quiet` one. No file is written until `open`."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        progress: bool = True,
        stream: TextIO | None = None,
        validation: str = "noisy validation",
        test: str = "clean test",
    ) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.quiet = quiet
        self.validation, self.test = validation, test  # the names of the splits
        self.path: Path | None = None
        self.records: list[dict[str, Any]] = []  # one for each epoch so far
        self.bars = progress and not quiet and self.stream.isatty()
        self._board: Any = None

    def open(self, out: Path, *, tensorboard: bool = False) -> None:
        """Write to this folder from now on."""
        self.path = out / "metrics.jsonl"
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ImportError(
                    "tensorboard = true needs its package: pip install tensorboard"
                ) from None
            self._board = SummaryWriter(str(out / "tensorboard"))

    def begin(self, title: str, epochs: int) -> None:
        """Announce the training of a network for so many epochs in all."""

    def info(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(text, file=self.stream, flush=True)

    def epoch(self, record: dict[str, Any]) -> None:
        """Print the line of an epoch, and append its record to the file."""
        self.info(self._line(record))
        self.take([record])
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{record['stage']}/{name}", value, record["epoch"])

    def take(self, records: Sequence[dict[str, Any]]) -> None:
        """Append records to the file, such as those of a warm-up that another run made."""
        self.records.extend(records)
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in records)
            except OSError as error:
                raise NotWrittenError.of(self.path, error) from None

    def back_to(self, records: list[dict[str, Any]]) -> None:
        """Keep only these records; later ones in the file are those of a killed process."""
        self.records = list(records)
        if self.path is not None and (records or self.path.exists()):
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in records))

    def bar(self, steps: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        """Iterate over the steps, with a progress bar if there is a terminal and tqdm."""
        if self.bars and importlib.util.find_spec("tqdm") is not None:
            from tqdm import tqdm

            steps = tqdm(steps, total=total, desc=title, leave=False, file=self.stream, delay=1)
        return iter(steps)

    def close(self) -> None:
        """Flush TensorBoard's files."""
        if self._board is not None:
            self._board.close()

    def _line(self, record: dict[str, Any]) -> str:
        more = dict(record)
        stage, epoch, epochs = (more.pop(name) for name in ("stage", "epoch", "epochs"))
        line = f"{stage:<10}{epoch:>4}/{epochs:<4} loss {more.pop('loss'):8.4f}  "
        for split, name in ((self.validation, "validation"), (self.test, "test")):
            if (share := more.pop(f"{name}_accuracy", None)) is not None:
                line += f"{split} {share:6.2f} %  "
        line += f"{more.pop('seconds'):6.1f} s"
        return line + "".join(f"  {n.replace('_', ' ')} {v:.3g}" for n, v in more.items())
