"""The files to mutate, and the tests that should fail: the only module with paths."""

from __future__ import annotations

from dataclasses import dataclass, field

OPERATORS = [
    "python_tests/sanitizers/test_every_kernel.py",
    "python_tests/ops/test_extreme_numbers.py",
    "python_tests/ops/test_clamped_entries.py",
    "python_tests/ops/test_transition_loss_edges.py",
    "python_tests/ops/test_posteriors.py",
    "python_tests/ops/test_noisy_posterior.py",
    "python_tests/ops/test_transition_loss.py",
    "python_tests/ops/test_layout.py",
    "python_tests/ops/test_many_classes.py",
    "python_tests/ops/test_functional.py",
    "python_tests/ops/test_checks.py",
    "python_tests/fuzz/test_operators.py",
]
SIMPLEX = [
    "python_tests/ops/test_simplex_projection.py",
    "python_tests/ops/test_simplex_weights.py",
    "python_tests/ops/test_invert_posterior.py",
    "python_tests/transition/test_simplex_least_squares.py",
]


@dataclass(frozen=True)
class Area:
    """Mutants are given to `tests`, without those marked slow, and with `--slow` to `slow`."""

    group: str  # whose score it counts for
    files: list[str]  # globs
    tests: list[str]  # those first that are quick to fail
    slow: list[str] = field(default_factory=list)
    count: int = 5  # mutants to draw
    compiled: bool = False  # part of the CPU operators
    all_are_slow: bool = False  # the tests are marked slow


def _cuda(folders: list[str], tests: list[str], slow: list[str], count: int) -> Area:
    files = [f"csrc/cuda/{folder}/*.{ext}" for folder in folders for ext in ("cu", "cuh", "h")]
    return Area(
        "csrc/cuda",
        files,
        [f"python_tests/cuda/test_cuda_{test}.py" for test in tests],
        [f"python_tests/cuda/test_cuda_{test}.py" for test in slow],
        count,
        all_are_slow=True,
    )


def _python(names: str, *tests: str, slow: tuple[str, ...] = (), count: int = 5) -> Area:
    return Area(
        "ptd_ext",
        [f"ptd_ext/{name}" for name in names.split()],
        [f"python_tests/{test}" for test in tests],
        [f"python_tests/{test}" for test in slow],
        count,
    )


AREAS = {
    "math": Area(
        "csrc/math",
        ["csrc/math/*.h"],
        [*SIMPLEX, *OPERATORS],
        ["python_tests/cuda/test_cuda_simplex_projection.py"],  # what the CPU has for vectors
        count=25,
        compiled=True,
    ),
    "cpu": Area(
        "csrc/cpu",
        ["csrc/cpu/**/*.h", "csrc/cpu/**/*_cpu.cpp"],
        [*OPERATORS, *SIMPLEX],
        ["python_tests/ops/test_many_classes.py", "python_tests/fuzz/test_operators.py"],
        count=30,
        compiled=True,
    ),
    "cuda_losses": _cuda(
        ["column", "gradients"],
        ["extreme_numbers", "clean_posterior", "entries_at_zero", "losses"],
        ["loss_edges", "loss_order"],
        9,
    ),
    "cuda_row_sums": _cuda(["row_sums"], ["entries_at_zero", "clamped_entries", "row_sums"], [], 6),
    "cuda_posterior": _cuda(["matrix"], ["noisy_posterior"], [], 4),
    "cuda_simplex": _cuda(
        ["simplex"], ["simplex_projection", "project_transition", "simplex_weights"], [], 4
    ),
    "cuda_common": _cuda(
        ["common"], ["extreme_numbers", "simplex_projection", "operators"], ["losses"], 2
    ),
    "ops": _python("ops/*.py", "ops", "fuzz/test_operators.py", count=6),
    "modules": _python("nn.py plot.py", "test_nn.py", "test_plot.py", count=2),
    "nmf": _python("nmf/*.py", "nmf", "fuzz/test_estimators.py", slow=("nmf",), count=6),
    "noise": _python("noise/*.py", "noise", "utils", count=4),
    "transition": _python(
        "transition/*.py",
        "transition",
        "fuzz/test_estimators.py",
        slow=("transition",),
        count=10,
    ),
    "label_issues": _python("label_issues/**/*.py", "label_issues", count=8),
    "engine": _python(
        "engine/model/*.py engine/rows/*.py engine/stage/*.py engine/training/*.py",
        "engine",
        "utils/test_threads.py",
        slow=("experiments/run/test_resume.py", "experiments/run/test_training_ranks.py"),
        count=9,
    ),
    "methods": _python(
        "engine/methods/*.py",
        "engine/methods",
        "engine/settings",
        "experiments/run/test_training_ranks.py",
        count=6,
    ),
    "networks": _python("engine/networks/*.py", "engine/networks", count=3),
    "settings": _python(
        "engine/settings/*.py",
        "engine/settings",
        "engine/training/test_feasibility.py",
        "cli",
        count=3,
    ),
    "data": _python("data/*.py", "data", "cli/test_labels.py", "cli/test_labels_faults.py"),
    "datasets": _python(
        "experiments/datasets/**/*.py",
        "experiments/datasets",
        "fuzz/test_fuzz_files.py",
        count=6,
    ),
    "run": _python("experiments/*.py experiments/run/*.py", "experiments/run", count=5),
    "reproduce": _python("experiments/reproduce/*.py", "experiments/reproduce", count=5),
    "utils": _python(
        "utils/*.py utils/formats/*.py",
        "utils",
        "noise",
        "fuzz/test_fuzz_files.py",
        slow=("nmf", "transition", "experiments/run/test_training_ranks.py"),
        count=4,
    ),
    "cli": _python("cli/*.py", "cli", "package/test_install.py", count=5),
}
