"""The scripts of examples/ run as they stand there, and reach what they are meant to show."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FRAMEWORKS = {"with_lightning": "lightning", "with_hugging_face": "transformers"}
FRAMEWORKS |= {"with_skorch": "skorch"}

# The package under test is the installed one: the scripts run from a folder that has no ptd_ext.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of the wheel"),
]


def run(script, folder, *arguments, launcher=(), codes=(0,)):
    result = subprocess.run(
        [sys.executable, *launcher, EXAMPLES / script, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode in codes, result.stdout + result.stderr
    return result.stdout


def percentages(text):
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def test_drop_in_loss_beats_cross_entropy(tmp_path):
    _, plain, through = percentages(run("drop_in_loss.py", tmp_path))
    assert through > plain + 5


def test_most_doubtful_labels_are_wrong(tmp_path):
    output = run("which_labels_are_wrong.py", tmp_path, "doubtful.png")
    first, all_of_them = percentages(output)[-2:]
    assert first >= 95
    assert all_of_them >= 85
    assert (tmp_path / "doubtful.png").stat().st_size > 1000


def test_estimated_transition_is_saved_and_drawn(tmp_path):
    text = run("estimate_transition.py", tmp_path, tmp_path)
    assert "PartTransition(n_parts=6, n_classes=10, n_features=64)" in text
    for name in ("transition.safetensors", "transition.png", "parts.png"):
        assert (tmp_path / name).stat().st_size > 1000


def test_own_data_reports_which_labels_are_wrong(tmp_path):
    text = run("own_data.py", tmp_path, tmp_path / "own")
    assert int(re.search(r"(\d+) of the 300 most doubtful", text)[1]) >= 270


def test_review_loop_measures_the_true_rate(tmp_path):
    output = run("review_loop.py", tmp_path)
    low, high = percentages(output.split("measured noise rate")[1])[1:3]
    truth = percentages(output.split("true noise rate")[1])[0]
    assert low <= truth <= high
    assert "rows left out" in output


def test_two_processes_train_together(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node=2")
    # On a busy machine gloo's threads now and then abort while the process exits, after all output.
    output = run("two_processes.py", tmp_path, launcher=launcher, codes=(0, 1))
    plain, through = percentages(output)
    assert through > plain + 5


@pytest.mark.parametrize("script", FRAMEWORKS)
def test_frameworks_train_with_the_loss(script, tmp_path):
    if importlib.util.find_spec(FRAMEWORKS[script]) is None:
        pytest.skip(f"{FRAMEWORKS[script]} is not installed")
    assert percentages(run(f"frameworks/{script}.py", tmp_path))[-1] > 75


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_is_shorter_than_a_page(script):
    assert len(script.read_text().splitlines()) <= 66
