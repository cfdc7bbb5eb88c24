"""Whether the interpreted kernels compute what they should, against ptd_ext.reference.

A kernel that goes wrong takes other branches, touches other memory, and gets another time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from sass_program import Program
from sass_warp import Launch
from v100_cases import STEPS, Arrays, Case, pack
from v100_moved import launch_sizes

from ptd_ext import reference

TOLERANCE = 2e-4  # of the largest entry


def check(arrays: Arrays) -> None:
    """Compares the rows that the blocks wrote; the rest of the result is NaN."""
    case = arrays.case
    if "table" in case.title:
        return check_table(arrays)
    if case.title == "loss":
        return
    rows = written(arrays)
    if not len(rows):
        raise AssertionError(f"{case.kernel} wrote nothing")
    got, wanted = result_of(arrays)[rows], expected(arrays, rows)
    if case.rows > 1:  # blocks that have some classes each
        got, wanted = got[~np.isnan(got)], wanted[~np.isnan(got)]
    compare(case, got, wanted)


def check_block(arrays: Arrays, rows: np.ndarray) -> None:
    """What a block made of its samples. Of a loss it wrote their mean: other blocks left zeros."""
    case = arrays.case
    if case.title == "loss":
        mean = arrays.memory.array(arrays.scalars)[:1]
        return compare(case, mean, expected(arrays, rows) * case.n / len(rows))
    if not np.array_equal(written(arrays), rows):
        raise AssertionError(f"{case.kernel} left out samples of its block")
    compare(case, result_of(arrays)[rows], expected(arrays, rows))


def result_of(arrays: Arrays) -> np.ndarray:
    is_sums = arrays.case.title.startswith("row sums")
    return arrays.memory.array(arrays.row_sums if is_sums else arrays.out)


def written(arrays: Arrays) -> np.ndarray:
    """The rows that are not NaN."""
    out = result_of(arrays)
    return np.flatnonzero(~np.isnan(out).reshape(len(out), -1).all(1))


def check_table(arrays: Arrays) -> None:
    """The numbers that the blocks wrote; the rest is zero."""
    for place, wanted in zip(arrays.table[:3], arrays.expected_table, strict=False):
        found = arrays.memory.array(place)
        filled = found != 0
        if not filled.any():
            raise AssertionError(f"{arrays.case.kernel} wrote nothing")
        compare(arrays.case, found[filled], wanted[filled])


def check_mean(case: Case, program: Program) -> None:
    """The mean of a small batch, all blocks of which are run."""
    few = replace(case, n=600)
    arrays, sizes = Arrays(few), launch_sizes(few)
    arguments = pack(few.arguments(arrays))
    columns = sizes.blocks // few.rows
    launch = Launch(
        program, arrays.memory, arguments, (columns, few.rows, 1), sizes.threads, sizes.shared
    )
    arrays.set_ticket(0, left=False)
    for block in range(sizes.blocks):
        launch.run((block % columns, block // columns, 0))
    loss = arrays.memory.array(arrays.scalars)[:1]
    compare(few, loss, expected(arrays, np.arange(few.n)))


def compare(case: Case, got: np.ndarray, wanted: np.ndarray) -> None:
    error = np.abs(got - wanted).max() / np.abs(wanted).max()
    if not error < TOLERANCE:
        raise AssertionError(f"{case.kernel} is interpreted wrongly: relative error {error:.1e}")


def expected(arrays: Arrays, rows: np.ndarray) -> np.ndarray:
    """In float64."""
    case, title = arrays.case, arrays.case.title

    def tensor(place: int) -> torch.Tensor:
        array = torch.from_numpy(arrays.memory.array(place).copy())
        return array.double() if array.is_floating_point() else array

    logits, grad = tensor(arrays.logits)[rows].requires_grad_(), tensor(arrays.grad)[rows]
    weights, labels = tensor(arrays.weights)[rows], tensor(arrays.labels)[rows]
    parts = tensor(arrays.columns).permute(1, 2, 0)  # from [k, j, i]
    slack = tensor(arrays.slack) if case.slack else None
    if title.startswith("simplex_weights"):
        linear, start = tensor(arrays.linear)[None, rows], tensor(arrays.projected)[None, rows]
        (result,) = reference.simplex_weights(*arrays.problem, linear, start, STEPS, 0.0)
    elif title.startswith("simplex"):
        logits = tensor(arrays.points)[rows].requires_grad_()
        result, grad = reference.simplex_projection(logits), tensor(arrays.point_grad)[rows]
    elif title.startswith("project"):
        result = reference.project_transition(logits)
    elif title.startswith("noisy"):
        # Their slack has columns that are contiguous.
        turned = None if slack is None else slack.T
        result = reference.noisy_posterior(logits, weights, parts, turned)
    elif title.startswith("clean"):
        result = reference.clean_posterior(logits, labels, weights, parts, slack)
    elif title.startswith("row sums"):
        result = (torch.einsum("nj,jik->nik", weights, parts) + slack).clamp(min=0).sum(-1)
    elif title == "plain loss":
        result = reference.forward_loss(
            logits, labels, weights, parts, reduction="none", smoothing=0
        )
    else:
        result = reference.forward_loss(logits, labels, weights, parts, slack, reduction="sum")
        result, grad = result / case.n, torch.ones(())
    if "backward" in title:
        (result,) = torch.autograd.grad((result * grad).sum(), logits)
    return result.detach().numpy()
