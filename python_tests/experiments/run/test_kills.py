"""Kills at random moments, and races, by the script that also does a hundred of each."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


@pytest.mark.slow
def test_killed_and_racing_runs_end_with_the_same_bits():
    script = Path(__file__).parent / "kill_runs.py"
    done = subprocess.run(
        [sys.executable, str(script), "10", "--races", "3"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for command in ("train", "labels"):
        assert f"3 races of {command}: one trained, two printed why not" in done.stdout
    assert done.stdout.count("all ended with the same bits") == 4
