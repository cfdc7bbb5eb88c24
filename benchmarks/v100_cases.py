"""Kernels with their arguments and memory, as the launchers set them up, for v100_model.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from emulator.build import compile_kernels
from occupancy import CUDA
from sass_memory import Memory

from ptd_ext import reference
from ptd_ext.simplex import WeightProblem

PLAIN = "v100_plain"
I32, I64, U64, F32, BOOL = (
    ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float, ctypes.c_bool,
)  # fmt: skip


def structure(name: str, **fields: type) -> type:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


# As in csrc/cuda: label_batch.h, row_sums_table.h, transition_batch.h, *_args.h.
Rows = structure("Rows", data=U64, row_stride=I64, stride=I64, flat=BOOL)
Labels = structure("Labels", data=U64, stride=I64, is_int64=BOOL)
LabelBatch = structure(
    "LabelBatch", logits=Rows, labels=Labels, weights=Rows, columns=U64, slack=U64,
    slack_row_stride=I64, slack_stride=I64, row_sums=U64, samples=I64, classes=I32, parts=I32,
    ignore_index=I64, smoothing=F32, floor=F32,
)  # fmt: skip
RowSumTable = structure(
    "RowSumTable", entries=U64, linear=U64, undecided=U64, weights=U64, off=U64, tiles=I32,
    fours=I32, chunks=I64,
)  # fmt: skip
Rule = structure("Rule", class_weight=U64, stride=I64, importance=I64, most=F32)
Outputs = structure(
    "Outputs", losses=U64, loss=U64, total=U64, mean=BOOL, partials=U64, ticket=U64
)  # fmt: skip
Gradients = structure(
    "Gradients", grad=U64, stride=I64, total=U64, logits=U64, entry=U64, row=U64
)  # fmt: skip
PosteriorGradients = structure("PosteriorGradients", grad=U64, logits=U64, entry=U64, row=U64)
TransitionBatch = structure(
    "TransitionBatch", weights=U64, columns=U64, slack=U64, samples=I64, classes=I32, parts=I32,
    rows=U64, slack_rows=U64,
)  # fmt: skip
MatrixView = structure(
    "MatrixView", parts=U64, outer=I32, inner=I32, slack=U64, slacks=I32, vectors=BOOL,
)  # fmt: skip
TiledBatch = structure(
    "TiledBatch", weights=U64, matrix=MatrixView, samples=I64, classes=I32, parts=I32, tiles=I32,
    sharing=I32, aligned=BOOL, whole_weights=BOOL,
)  # fmt: skip
LanesLayout = structure("LanesLayout", **{f"f{i}": I32 for i in range(14)})
WarpsLayout = structure("WarpsLayout", **{f"f{i}": I32 for i in range(12)})
ProductLayout = structure("ProductLayout", **{f"f{i}": I32 for i in range(12)})
Layout = structure("Layout", **{f"f{i}": I32 for i in range(11)})
GroupedLayout = structure(
    "GroupedLayout",
    chunks=I32,
    length=I32,
    last_length=I32,
    labels=I32,
    **{f"f{i}": I32 for i in range(5)},
)
WeightArgs = structure(
    "WeightArgs", contraction=U64, step=U64, shift=U64, linear=U64, start=U64, weights=U64,
    batch=I64, rows=I64, parts=I32, steps=I64, tolerance=F32,
)  # fmt: skip
STEPS = 10  # of simplex_weights
# Bytes into the scalars, of which the first is a loss or its gradient.
TOTAL, TICKET, PARTIALS = 32, 128, 256


@dataclass
class Case:
    title: str
    file: str
    kernel: str
    arguments: Callable[[Arrays], list]
    n: int
    c: int
    r: int
    slack: bool
    of_warp: int = 0  # samples at once, where they are grouped by label
    tall: int = 1  # grid.y, where they are not
    scale: float = 0.01  # of slack

    @property
    def rows(self) -> int:
        """grid.y"""
        if not self.of_warp:
            return self.tall
        return -(-self.c // grouped_layout(self).labels)

    @property
    def source(self) -> Path:
        here = self.file == PLAIN
        return (Path(__file__).parent if here else CUDA) / f"{self.file}.cuh"


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shares = np.exp(x)
    return shares / shares.sum(axis, keepdims=True)


def row_sums(weights: np.ndarray, columns: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """[N, C], of max(T(x) + slack, 0)."""
    sums = np.zeros((len(weights), len(slack)), np.float32)
    for k, column in enumerate(columns):
        sums += np.maximum(weights @ column + slack[:, k], 0)
    return sums


def row_sum_table(weights: np.ndarray, columns: np.ndarray, slack: np.ndarray) -> list[np.ndarray]:
    """What tabulate_rows writes, in the order of RowSumTable; N is a multiple of 128, C of 4."""
    c, r, _ = columns.shape
    low, high, shift = columns.min(1), columns.max(1), slack.T  # [k, i]
    always = high * (1 + 1 / 256) + shift <= 0
    never = (shift >= 0) | (low * (1 - 1 / 256) + shift >= (high - shift) / 65_536)
    never &= ~always
    values = np.concatenate([shift[:, None], columns], 1)  # [k, 1 + R, i]
    entries = np.zeros((c, -(-c // 8) * 8, 1 + r), np.float32)
    for i in range(c):
        known = (always | never)[:, i]
        order = np.concatenate([np.flatnonzero(~known), np.flatnonzero(known)[::-1]])
        entries[i, :c] = values[order, :, i]
    entries = entries.reshape(c, -1, 8, 1 + r).transpose(0, 1, 3, 2)
    linear = np.where(never[:, None], values, 0).sum(0).reshape(1 + r, -1, 4)
    undecided = (~(always | never)).sum(0, dtype=np.int32).reshape(-1, 4)
    turned = weights.reshape(-1, 128, r).transpose(0, 2, 1)
    return [entries, linear, undecided, turned, np.zeros((len(turned), 4), np.uint32)]


class Arrays:
    """A batch in memory, and room for every kind of result."""

    def __init__(self, case: Case):
        n, c, r = case.n, case.c, case.r
        rng = np.random.default_rng(0)
        self.case, self.memory = case, Memory()

        def normal(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape, np.float32)

        weights, parts = softmax(normal(n, max(r, 1))), softmax(2 * normal(c, r, c), axis=0)
        slack = case.scale * normal(c, c)
        add = self.memory.add
        self.logits, self.weights, self.grad = (
            add(2 * normal(n, c)),
            add(weights),
            add(normal(n, c)),
        )
        self.columns, self.slack = add(parts, cached=True), add(slack, cached=True)
        self.rows = add(np.ascontiguousarray(parts.transpose(1, 2, 0)), cached=True)
        self.slack_rows = add(np.ascontiguousarray(slack.T), cached=True)
        self.labels = add(rng.integers(0, c, n), cached=n * 8 < 2**20)
        empty = np.full((n, c), np.nan, np.float32)
        given = case.slack and not case.title.startswith("row sums")
        entries = slack.T if "noisy" in case.title else slack  # [i, k]
        self.row_sums = add(row_sums(weights, parts, entries) if given else empty)
        self.out = add(empty[:, 0] if case.file == PLAIN else empty)
        if case.title.startswith("row sums"):
            self.expected_table = row_sum_table(weights, parts, slack)
            fill = np.zeros_like if "table" in case.title else np.array
            self.table = [add(fill(array), cached=True) for array in self.expected_table]
        if case.title.startswith("simplex"):
            self.add_simplex(rng)
        scalars = np.zeros(1 << 16, np.float32)
        scalars[0], scalars[TOTAL // 4] = 1, n
        self.scalars = add(scalars, cached=True)

    def add_simplex(self, rng: np.random.Generator) -> None:
        """What is projected onto the simplex, and a problem whose solution lies there."""
        n, r = self.case.n, self.case.r
        points, grad = rng.standard_normal((2, n, r), np.float32)
        basis = rng.standard_normal((r, 30), np.float32)
        given = softmax(2 * points) @ basis + 0.1 * rng.standard_normal((n, 30), np.float32)
        self.problem = WeightProblem.of(torch.from_numpy((basis @ basis.T)[None]).double())
        contraction, step, shift = (t.float().numpy() for t in self.problem)
        add = self.memory.add
        self.points, self.point_grad = add(points), add(grad)
        self.projected = add(reference.simplex_projection(torch.from_numpy(points)).numpy())
        self.contraction, self.step, self.shift = (
            add(array, cached=True) for array in (contraction, step, shift)
        )
        self.linear = add(given @ basis.T)
        self.out = add(np.full((n, r), np.nan, np.float32))

    def weight_args(self) -> ctypes.Structure:
        case = self.case
        return WeightArgs(
            self.contraction, self.step, self.shift, self.linear, self.projected, self.out, 1,
            case.n, case.r, STEPS, 0.0,
        )  # fmt: skip

    def set_ticket(self, taken: int, left: bool = True) -> None:
        """How many blocks of a mean have drawn a ticket, and whether they have left their sums."""
        self.memory.word(self.scalars + TICKET)[:] = (taken - 1) % 2**32
        self.memory.array(self.scalars).view(np.int32)[PARTIALS // 4 :] = 0 if left else -1

    def block_with(self, most: bool) -> tuple[int, int, int]:
        """The index of a block of samples grouped by label: that with most, or about as many as
        blocks have on average."""
        layout = grouped_layout(self.case)
        labels = self.memory.array(self.labels)
        counts = np.zeros((self.case.rows, layout.chunks), np.int64)
        np.add.at(counts, (labels // layout.labels, np.arange(len(labels)) // layout.length), 1)
        chosen = counts.argmax() if most else np.abs(counts - counts.mean()).argmin()
        y, x = np.unravel_index(chosen, counts.shape)
        return int(x), int(y), 0

    def samples_of(self, block: tuple[int, int, int]) -> np.ndarray:
        """Those of a block of samples grouped by label."""
        layout, (x, y, _) = grouped_layout(self.case), block
        labels = self.memory.array(self.labels)
        chunks = np.arange(len(labels)) // layout.length
        return np.flatnonzero((chunks == x) & (labels // layout.labels == y))

    def labelled(self) -> ctypes.Structure:
        case = self.case
        slack = self.slack if case.slack else 0
        return LabelBatch(
            Rows(self.logits, case.c, 1, True), Labels(self.labels, 1, True),
            Rows(self.weights, case.r, 1, True), self.columns, slack, case.c, 1, self.row_sums,
            case.n, case.c, case.r, -100, 1e-8, 1e-8 / case.c,
        )  # fmt: skip

    def tabulated(self) -> ctypes.Structure:
        """What row sums are formed from."""
        entries, linear, *_, off = self.expected_table
        return RowSumTable(*self.table, entries.shape[1], linear.shape[1], len(off))

    def tiled(self, forward: bool) -> list:
        """The batch as the launchers of noisy_posterior hand it over."""
        case, few = self.case, self.case.c == 10
        batch = TransitionBatch(self.weights, 0, 0, case.n, case.c, case.r)
        if few or forward:
            batch.rows, batch.slack_rows = self.rows, self.slack_rows if case.slack else 0
        else:
            batch.columns, batch.slack = self.columns, self.slack if case.slack else 0
        kind, layout = ("lanes", LanesLayout()) if few else ("product", ProductLayout())
        if case.slack and not few:
            kind, layout = "warps", WarpsLayout()
        result = TiledBatch()
        getattr(plans(), kind)(*map(ctypes.byref, (batch, result, layout)), I64(forward))
        return [result, layout]

    def given_row_sums(self) -> list:
        """What noisy_posterior takes of them, which has none in kernels without slack."""
        return [self.row_sums] if self.case.slack or self.case.c == 10 else []

    def layout(self, pairs: bool = False) -> ctypes.Structure:
        layout = Layout()
        sizes = map(I64, (self.case.c, self.case.r, self.case.slack, pairs))
        plans().narrow(*sizes, ctypes.byref(layout))
        return layout

    def grouped(self) -> ctypes.Structure:
        return grouped_layout(self.case)


def plans() -> ctypes.CDLL:
    return compile_kernels([Path(__file__).parent / "v100_plans.cu"], check=False)


def grouped_layout(case: Case) -> ctypes.Structure:
    layout = GroupedLayout()
    has_losses = case.title == "loss"
    sizes = map(I64, (case.n, case.c, case.r, case.of_warp, has_losses))
    plans().grouped(*sizes, ctypes.byref(layout))
    return layout


RULE = Rule(0, 1, 0, float("inf"))


def outputs(a: Arrays) -> ctypes.Structure:
    return Outputs(0, a.scalars, a.scalars + TOTAL, True, a.scalars + PARTIALS, a.scalars + TICKET)


def gradients(a: Arrays) -> ctypes.Structure:
    return Gradients(a.scalars, 0, a.scalars + TOTAL, a.out, 0, 0)


def pack(arguments: list) -> bytes:
    """Kernel parameters, each at its alignment."""
    data = b""
    for argument in arguments:
        value = U64(argument) if isinstance(argument, int) else argument
        unit = ctypes.alignment(value)
        data += bytes(-len(data) % unit) + bytes(value)
    return data


def cases() -> list[Case]:
    found = [
        Case("plain loss", PLAIN, "plain_forward_loss<10>",
             lambda a: [a.logits, a.labels, a.weights, a.columns, a.out,
                        *map(I32, (a.case.n, a.case.r))], 65_536, 10, 20, False),
    ]  # fmt: skip
    narrow, many = "transition_loss_narrow_kernels", "transition_loss_kernels"
    clean = "clean_posterior"
    for n, c, r, slack in (
        (65_536, 10, 20, False), (65_536, 10, 20, True), (8_192, 100, 20, False),
        (8_192, 100, 20, True),
    ):  # fmt: skip
        size = (n, c, r, slack)
        if c == 10:
            given = "lone_slack" if slack else "lone"
            found += [
                Case("clean_posterior", f"{clean}_narrow_kernels",
                     f"clean_posterior_{given}<float>",
                     lambda a: [a.labelled(), a.layout(), a.out], *size),
                Case("clean_posterior backward", f"{clean}_narrow_kernels",
                     f"clean_posterior_backward_pair<float, {str(slack).lower()}>",
                     lambda a: [a.labelled(), a.layout(pairs=True),
                                PosteriorGradients(a.grad, a.out, 0, 0)], *size),
            ]  # fmt: skip
            kind = "pair<float, 5, true>" if slack else "lone<float>"
            noisy, tiled = "lanes", "<2, 5, float>"
            found += [
                Case("loss", narrow, f"transition_loss_{given}<float>",
                     lambda a: [a.labelled(), a.layout(), RULE, outputs(a)], *size),
                Case("loss backward", narrow, f"transition_loss_backward_{kind}",
                     lambda a: [a.labelled(), a.layout(pairs=a.case.slack), RULE, gradients(a)],
                     *size),
            ]  # fmt: skip
        else:
            noisy, tiled = "warps" if slack else "product", "<float>"
            mapping = f"<float, 4, true, {str(slack).lower()}>"
            found += [
                Case("loss", many,
                     f"transition_loss_grouped{mapping}" if slack
                     else "transition_loss_quartet<float, 4>",
                     lambda a: [a.labelled(), a.grouped(), RULE, outputs(a)], *size, of_warp=4),
                Case("loss backward", many, f"transition_loss_backward_grouped{mapping}",
                     lambda a: [a.labelled(), a.grouped(), RULE, gradients(a)], *size, of_warp=2),
            ]  # fmt: skip
            found += [
                Case("clean_posterior", f"{clean}_kernels", f"clean_posterior_grouped{mapping}",
                     lambda a: [a.labelled(), a.grouped(), a.out], *size, of_warp=2),
                Case("clean_posterior backward", f"{clean}_kernels",
                     f"clean_posterior_backward_grouped{mapping}",
                     lambda a: [a.labelled(), a.grouped(),
                                PosteriorGradients(a.grad, a.out, 0, 0)], *size, of_warp=2),
            ]  # fmt: skip
            if slack:
                found += [
                    Case("row sums, table", "row_sums_table_kernels", "tabulate_rows<float, true>",
                         lambda a: [a.labelled(), a.tabulated(), I32(3)], *size),
                    *(Case(title, "row_sums_kernels", "row_sums<float>",
                           lambda a: [a.tabulated(), a.row_sums, I64(a.case.n),
                                      *map(I32, (a.case.c, a.case.r)), BOOL(True)],
                           *size, tall=-(-c // 8), scale=scale)
                      for title, scale in (("row sums", 0.01), ("row sums, slack zero", 0.0))),
                ]  # fmt: skip
        found += [
            Case("noisy_posterior", f"noisy_posterior_{noisy}_kernels",
                 f"noisy_posterior_{noisy}{tiled}",
                 lambda a: [*a.tiled(True), a.logits, a.out, *a.given_row_sums()], *size),
            Case("noisy_posterior backward", f"noisy_posterior_{noisy}_kernels",
                 f"noisy_posterior_backward_{noisy}{tiled}",
                 lambda a: [*a.tiled(False), a.logits, a.grad, *a.given_row_sums(), a.out, 0, 0],
                 *size),
        ]  # fmt: skip
    for n, c, mapping in ((65_536, 10, "<float, 16, 1, 4>"), (8_192, 100, "<float, 32, 4, 1>")):
        file = "project_transition_kernels"
        found += [
            Case("project_transition", file, f"project_short_rows{mapping}",
                 lambda a: [a.logits, a.out, I64(a.case.n), I32(a.case.c)], n, c, 0, False),
            Case("project_transition backward", file, f"project_short_rows_backward{mapping}",
                 lambda a: [a.logits, a.grad, a.out, I64(a.case.n), I32(a.case.c)], n, c, 0, False),
        ]  # fmt: skip
    for n in (65_536, 8_192):
        size, file = (n, 10, 20, False), "simplex_projection_kernels"
        found += [
            Case("simplex_projection", file, "simplex_project_short<float, 6>",
                 lambda a: [a.points, a.out, I64(a.case.n), I32(a.case.r)],
                 *size),
            Case("simplex_projection backward", file, "simplex_project_short_backward<float, 6>",
                 lambda a: [a.point_grad, a.projected, a.out, I64(a.case.n), I32(a.case.r)], *size),
            Case(f"simplex_weights, {STEPS} steps", "simplex_weights_few_kernels",
                 "simplex_weights_few<2, 10>",
                 lambda a: [a.weight_args(), I32(-(-a.case.n // 64))], *size),
        ]  # fmt: skip
    return found
