"""The log: lines on the screen, records in `metrics.jsonl`, TensorBoard on request."""

from __future__ import annotations

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
        verbose: bool = False,
        progress: bool = True,
        stream: TextIO | None = None,
        validation: str = "noisy validation",
        test: str = "clean test",
    ) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.quiet = quiet
        self.verbose = verbose  # a line for every epoch, otherwise one for every stage
        self.validation, self.test = validation, test  # the names of the splits
        self.path: Path | None = None
        self.records: list[dict[str, Any]] = []  # one for each epoch so far
        self.bar_stream = self.stream if progress and not quiet and self.stream.isatty() else None
        self._bar: Any = None
        self._network = ""
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

    def begin(self, network: str, epochs: int) -> None:
        """Begin the training of a network for so many epochs in all; show a bar on terminals."""
        self._network = network
        if self.bar_stream is not None:
            self._bar = progress_bar(epochs, f"training {network}", self.bar_stream)

    def info(self, text: str) -> None:
        """Print one line."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.clear()
        print(text, file=self.stream, flush=True)

    def detail(self, text: str) -> None:
        """Print one line if it is wanted, such as a summary of an estimate."""
        if self.verbose:
            self.info(text)

    def epoch(self, record: dict[str, Any]) -> None:
        """Append the record of an epoch to the file; print its line, or that of its stage."""
        self.take([record])
        if self.verbose:
            self.info(self._line(record))
        elif record["epoch"] == record["epochs"]:
            of_stage = (r["seconds"] for r in self.records if r["stage"] == record["stage"])
            self.info(self._line({**record, "seconds": sum(of_stage)}))
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{record['stage']}/{name}", value, record["epoch"])

    def take(self, records: Sequence[dict[str, Any]]) -> None:
        """Append records to the file, such as those of a warm-up that another run made."""
        self.records.extend(records)
        self._show(len(self.records))
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in records)
            except OSError as error:
                raise NotWrittenError.of(self.path, error) from None

    def back_to(self, records: list[dict[str, Any]]) -> None:
        """Keep only these records; later ones in the file are those of a killed process."""
        self.records = list(records)
        self._show(len(self.records))
        if self.path is not None and (records or self.path.exists()):
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in records))

    def steps(self, batches: Iterable[Any], total: int, stage: str) -> Iterator[Any]:
        """Iterate over steps of an epoch, which has `total` of them; the bar moves on with each."""
        for batch in batches:
            yield batch
            if self._bar is not None:
                self._bar.set_postfix_str(stage, refresh=False)
                self._bar.update(1 / total)

    def close(self) -> None:
        """Remove the bar, and flush TensorBoard's files."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._board is not None:
            self._board.close()

    def _show(self, epochs: int) -> None:
        """Set the bar to this number of finished epochs."""
        if self._bar is not None:
            self._bar.n = epochs
            self._bar.refresh()

    def _line(self, record: dict[str, Any]) -> str:
        more = dict(record)
        stage, epoch, epochs = (more.pop(name) for name in ("stage", "epoch", "epochs"))
        network = f"{self._network:<9} " if self._network else ""
        line = f"{network}{stage:<10}{epoch:>4}/{epochs:<4} loss {more.pop('loss'):8.4f}  "
        for split, name in ((self.validation, "validation"), (self.test, "test")):
            if (share := more.pop(f"{name}_accuracy", None)) is not None:
                line += f"{split} {share:6.2f} %  "
        line += f"{more.pop('seconds'):6.1f} s"
        return line + "".join(f"  {n.replace('_', ' ')} {v:.3g}" for n, v in more.items())


def progress_bar(total: int, title: str, stream: TextIO | None = None) -> Any:
    """A bar with the time left, which disappears at its end; None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    shape = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
    return tqdm(total=total, desc=title, bar_format=shape, leave=False, file=stream)
