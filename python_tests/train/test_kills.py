"""Kills at random moments, by the script that also does a hundred of each command."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


@pytest.mark.slow
def test_killed_runs_end_with_the_same_bits():
    script = Path(__file__).parent / "kill_runs.py"
    done = subprocess.run(
        [sys.executable, str(script), "10"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all ended with the same bits") == 3
