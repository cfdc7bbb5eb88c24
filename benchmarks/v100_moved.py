"""Sizes and traffic of the launches of v100_cases.py, from the launchers and the emulator."""

from __future__ import annotations

import ctypes
import dataclasses
import sys

import cuda_labels
import cuda_noisy as noisy
import test_cuda_project_transition as project
import test_cuda_simplex_projection as simplex
import test_cuda_simplex_weights as weights
import torch
from emulator.all_launches import launchers
from emulator.launches import Launch, recording
from traffic import Moved, is_fixed, moved_by
from v100_cases import PLAIN, STEPS, Case


def launch_sizes(case: Case) -> Launch:
    """The launch of a case's kernel at its full size, which is not run."""
    if case.file == PLAIN:
        return Launch(case.kernel, -(-case.n // 256), 256, case.c**2 * case.r * 4)
    kernels = launchers()
    with recording(traffic=False) as launches:
        kernels.launch_all(*map(ctypes.c_int64, (case.n, case.c, max(case.r, 1))))
    wanted = [launch for launch in launches if launch.kernel == case.kernel]
    if not wanted:
        sys.exit(f"Nothing launches {case.kernel} for {case.n} samples of {case.c} classes.")
    # Vectors and scalars of logits have the same sizes; those without slack come first.
    return wanted[-1 if case.slack else 0]


def moved(case: Case, full: Launch) -> Moved:
    """Bytes at full size, from a run of few samples."""
    if case.file == PLAIN:
        streams = 4 * case.n * (case.c + case.r + 3)  # a label has eight bytes
        return Moved(case.kernel, streams, streams, streams, 4 * case.c**2 * case.r)
    n, c, r, slack = few(case), case.c, case.r, case.scale if case.slack else None
    with recording() as launches:
        if "simplex_weights" in case.kernel:
            weights.run(weights.make_problem(r, n), STEPS)
        elif "simplex" in case.kernel:
            simplex.run(torch.randn(n, r), torch.randn(n, r))
        elif "project" in case.kernel:
            project.run(torch.randn(n, c), torch.randn(n, c))
        elif "noisy" in case.kernel:
            batch, grad = noisy.batch_of(n, c, r, case.slack), torch.randn(n, c)
            noisy.run_tiled(batch, grad)
        else:
            # All labels, for their columns to be read.
            labelled = cuda_labels.batch_of(n, c, r, slack)
            labelled = dataclasses.replace(labelled, labels=torch.arange(n) % c)
            if "clean" in case.kernel:
                cuda_labels.run_posterior(labelled, torch.randn(n, c))
            else:
                cuda_labels.run_loss(labelled)
    launch = next(launch for launch in launches if launch.kernel == case.kernel)
    result = moved_by(launch, n, c, r, case.slack, False, case.n)
    name = case.kernel.split("<")[0]
    fixed = sum(t.block for t in launch.traffic if is_fixed(name, t))
    result.cached += fixed * full.blocks / launch.blocks
    return result


def few(case: Case) -> int:
    """Samples that are run in seconds."""
    if case.c == 10:
        return 1024
    if "noisy" in case.kernel:
        return 32
    return case.c if case.slack else 512
