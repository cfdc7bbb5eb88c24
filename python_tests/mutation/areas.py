"""The files to mutate, and the tests that should fail: the only module with paths."""

from __future__ import annotations

from dataclasses import dataclass

QUICK = ["-m", "not slow"]
OPERATORS = [
    "python_tests/sanitizers/test_every_kernel.py",
    "python_tests/ops/test_extreme_numbers.py",
    "python_tests/ops/test_transition_loss_edges.py",
    "python_tests/ops/test_posteriors.py",
    "python_tests/ops/test_noisy_posterior.py",
    "python_tests/ops/test_transition_loss.py",
    "python_tests/ops/test_layout.py",
    "python_tests/ops/test_many_classes.py",
    "python_tests/fuzz/test_operators.py",
]
SIMPLEX = [
    "python_tests/ops/test_simplex_projection.py",
    "python_tests/ops/test_simplex_weights.py",
    "python_tests/transition/test_simplex_least_squares.py",
]


@dataclass(frozen=True)
class Area:
    files: list[str]  # globs
    tests: list[str]  # arguments of pytest, those first that are quick to fail
    compiled: bool = False  # part of the CPU operators


AREAS = {
    "math": Area(["csrc/math/*.h"], [*SIMPLEX, *OPERATORS, *QUICK], compiled=True),
    "cpu": Area(
        ["csrc/cpu/**/*.h", "csrc/cpu/**/*_cpu.cpp"], [*OPERATORS, *SIMPLEX, *QUICK], compiled=True
    ),
    "cuda_losses": Area(
        ["csrc/cuda/column/*.cuh", "csrc/cuda/gradients/*.cu*"],
        [
            "python_tests/cuda/test_cuda_extreme_numbers.py",
            "python_tests/cuda/test_cuda_loss_edges.py",
            "python_tests/cuda/test_cuda_losses.py",
            "python_tests/cuda/test_cuda_clean_posterior.py",
        ],
    ),
    "cuda_row_sums": Area(
        ["csrc/cuda/row_sums/*.cu*"],
        [
            "python_tests/cuda/test_cuda_row_sums.py",
            "python_tests/cuda/test_cuda_clamped_entries.py",
        ],
    ),
    "cuda_posterior": Area(
        ["csrc/cuda/matrix/*.cu*"],
        ["python_tests/cuda/test_cuda_noisy_posterior.py", "-k", "not most_parts"],
    ),
    "cuda_simplex": Area(
        ["csrc/cuda/simplex/*.cu*"],
        [
            "python_tests/cuda/test_cuda_simplex_projection.py",
            "python_tests/cuda/test_cuda_project_transition.py",
            "python_tests/cuda/test_cuda_simplex_weights.py",
        ],
    ),
    "ops": Area(
        ["ptd_ext/ops/*.py"],
        ["python_tests/ops", "python_tests/fuzz/test_operators.py", *QUICK],
    ),
    "nmf": Area(["ptd_ext/nmf/*.py"], ["python_tests/nmf", *QUICK]),
    "noise": Area(["ptd_ext/noise/*.py"], ["python_tests/noise", *QUICK]),
    "transition": Area(
        [
            "ptd_ext/transition/anchors.py",
            "ptd_ext/transition/fit.py",
            "ptd_ext/transition/metrics.py",
            "ptd_ext/transition/model.py",
            "ptd_ext/transition/_simplex_least_squares.py",
        ],
        ["python_tests/transition", *QUICK],
    ),
    "train": Area(
        ["ptd_ext/train/engine/*.py", "ptd_ext/train/methods/*.py"],
        ["python_tests/train/engine", "python_tests/train/methods", *QUICK],
    ),
}
