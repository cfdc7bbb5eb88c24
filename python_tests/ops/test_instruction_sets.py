"""Every compiled variant of the CPU kernels, not only the one this machine would choose."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ptd_ext
from ptd_ext import _C

TESTS = [
    "test_invert_posterior.py",
    "test_transition_loss.py",
    "test_transition_loss_edges.py",
    "test_many_classes.py",
    "test_noisy_posterior.py",
    "test_posteriors.py",
    "../transition/test_simplex_least_squares.py",
    "test_simplex_projection.py",
    "test_simplex_weights.py",
]
VARIANTS = [v for v in ptd_ext.ops.build_info()["cpu_variants"] if v != _C.cpu_isa()]


@pytest.mark.slow
@pytest.mark.skipif("PTD_EXT_CPU_ISA" in os.environ, reason="already running one variant")
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant(variant):
    environment = {**os.environ, "PTD_EXT_CPU_ISA": variant, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS]
    run = subprocess.run(
        # Tracing does not depend on the kernels, nor do second derivatives, which are taken of the
        # definition.
        [*command, "-m", "not cuda", "-k", "not opcheck and not compile and not second"],
        env=environment,
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    output = run.stdout + run.stderr
    if "is not supported by this CPU" in output:
        pytest.skip(f"this CPU has no {variant}")
    assert run.returncode == 0, output[-3000:]
    assert " passed" in output
