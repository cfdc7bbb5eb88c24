"""Every launch that the operators can make, from the operators themselves; no kernel runs."""

from __future__ import annotations

import itertools
import math
import mmap
from collections.abc import Iterator
from typing import Any

import torch

from .launches import recording
from .operators import Operators, emulated

SAMPLES = (512, 8192)
# Every number of classes up to 40; beyond, what launchers may compare with, and around it.
CLASSES = [*range(1, 41), 64, 65, 68, 96, 97, 100, 128, 129, 192, 193, 256, 257, 384, 512, 513]
CLASSES += [768, 769, 1000, 1025, 1536, 2048, 2049, 3072, 3073, 4097, 6144, 6145]
PARTS = [*range(1, 10), 16, 17, 20, 21, 32, 33, 48, 64, 65, 96, 128, 129, 160, 161, 192, 193, 256]
PARTS += [257, 320, 400, 513, 1025, 1600]
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
MAX_BYTES = 2**30  # the parts: what comes back is as large
MAX_COPIED = 2**20  # bytes of the parts, where operators copy them


class Memory:
    """Tensors of any size, all in the same memory, which is reserved and never used."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self._bytes = torch.frombuffer(mmap.mmap(-1, 2**33, flags=flags), dtype=torch.uint8)

    def tensor(self, *shape: int, dtype: torch.dtype, lead: int = 0) -> torch.Tensor:
        """Contiguous, `lead` numbers after a 16-byte boundary."""
        flat = self._bytes.view(dtype)
        return flat[lead : lead + math.prod(shape)].view(shape)

    def parts(self, r: int, c: int, dtype: torch.dtype) -> torch.Tensor:
        """In the layout where a column is contiguous."""
        return self.tensor(c, r, c, dtype=dtype).permute(1, 2, 0)


def _label_calls(memory: Memory, n: int, c: int, r: int) -> Iterator[tuple[str, Any]]:
    """Calls of the losses and the clean posterior."""
    for dtype, has_slack, lead in itertools.product(TYPES, (False, True), (0, 1)):
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        if wide.itemsize * r * c * c > MAX_BYTES:
            continue
        logits = memory.tensor(n, c, dtype=dtype, lead=lead)
        labels = memory.tensor(n, dtype=torch.int64)
        weights, parts = memory.tensor(n, r, dtype=wide), memory.parts(r, c, wide)
        slack = memory.tensor(c, c, dtype=wide) if has_slack else None
        saved = memory.tensor(*((n, c) if has_slack else (0,)), dtype=wide)
        one, grad = memory.tensor(dtype=wide), memory.tensor(n, c, dtype=wide, lead=lead)
        loss = (logits, labels, weights, parts, slack, None)
        posterior = (logits, labels, weights, parts, slack)
        for reduction in (0, 1) if lead == 0 else (1,):
            yield "transition_loss", (*loss, 0, math.inf, reduction, -100, 1e-8)
        yield "clean_posterior", (*posterior, -100, 1e-8)
        all_needs = [(True, False, False, False), (True, True, False, has_slack)]
        all_needs += [(True, True, True, has_slack)]
        for needs in all_needs if lead == 0 else all_needs[:1]:
            saved_loss = (one, *loss, one, saved, 0, math.inf, 1, -100, 1e-8)
            yield "transition_loss_backward", (*saved_loss, *needs)
            yield "clean_posterior_backward", (grad, *posterior, saved, -100, 1e-8, *needs)


def _noisy_calls(memory: Memory, n: int, c: int, r: int) -> Iterator[tuple[str, Any]]:
    for dtype, has_slack in itertools.product(TYPES, (False, True)):
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        if wide.itemsize * r * c * c > MAX_COPIED:
            continue
        logits, weights = memory.tensor(n, c, dtype=dtype), memory.tensor(n, r, dtype=wide)
        slack = memory.tensor(c, c, dtype=wide) if has_slack else None
        batch = (logits, weights, memory.parts(r, c, wide), slack)
        saved = memory.tensor(*((n, c) if has_slack else (0,)), dtype=wide)
        grad = memory.tensor(n, c, dtype=wide)
        yield "noisy_posterior", batch
        for more in (False, True):
            needs = (True, more, more, more and has_slack)
            yield "noisy_posterior_backward", (grad, *batch, saved, *needs)


def _row_calls(memory: Memory, n: int, c: int, r: int) -> Iterator[tuple[str, Any]]:
    for dtype in (torch.float32, torch.float64):
        matrix = memory.tensor(max(1, n // c), c, c, dtype=dtype)
        yield "project_transition", (matrix,)
        yield "project_transition_backward", (matrix, matrix)
        rows = memory.tensor(n, r, dtype=dtype)
        yield "simplex_projection", (rows,)
        yield "simplex_projection_backward", (rows, rows)
        square, vector = memory.tensor(1, r, r, dtype=dtype), memory.tensor(1, r, dtype=dtype)
        problem = (square, memory.tensor(1, dtype=dtype), vector, rows[None], None)
        yield "simplex_weights", (*problem, 1, 0.0)


def _calls(memory: Memory, c: int, r: int) -> Iterator[tuple[str, Any]]:
    for n in SAMPLES:
        yield from _label_calls(memory, n, c, r)
        # Other libraries' products, which do run, are part of it, above all for many classes.
        if n == SAMPLES[0]:
            yield from _noisy_calls(memory, n if c * r <= 400 else 16, c, r)
        if c == CLASSES[0] or r == PARTS[0]:
            yield from _row_calls(memory, n, c, r)


def _run(ops: Operators, name: str, arguments: Any) -> None:
    try:
        getattr(ops, name)(*arguments)
    except RuntimeError as error:  # more classes or parts than the operator takes
        if "at most" not in str(error) and "1 to 256 parts" not in str(error):
            raise


def all_launches() -> dict[str, dict[tuple[int, int], tuple[int, int]]]:
    """By kernel: its (threads, dynamic shared memory), each with the first (C, R) that has it."""
    found: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    memory = Memory()
    with emulated(check=False) as ops:
        # Every second pair, as on a chess board: neighbours launch alike.
        pairs = itertools.product(enumerate(CLASSES), enumerate(PARTS))
        for c, r in [(c, r) for (i, c), (j, r) in pairs if (i + j) % 2 == 0]:
            with recording(traffic=False) as launches:
                for name, arguments in _calls(memory, c, r):
                    _run(ops, name, arguments)
            for launch in launches:
                sizes = found.setdefault(launch.kernel, {})
                sizes.setdefault((launch.threads, launch.shared), (c, r))
    return found
