"""A small problem to train on, and ways to run it."""

import json
import subprocess
import sys

import numpy as np
import torch

from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments.presets import resolve
from ptd_ext.utils import tensor_files
from ptd_ext.utils.distributed import Ranks

CPU = Placement(torch.device("cpu"), Ranks())

QUICK = {
    "dataset": "npz",
    "rate": 0.3,
    "noise": "pairwise",
    "network": "mlp",
    "validation_fraction": 0.1,
    "select": "accuracy",
    "epochs": 3,
    "milestones": (2,),
    "warm_up_epochs": 3,
    "pred_probs_epochs": 2,
    "revision_epochs": 2,
    "ramp_epochs": 3,
    "joint_average": 3,
    "joint_epochs": 3,
    "joint_soft_from": 1,
    "joint_final_epochs": 2,
    "dmi_epochs": 2,
    "n_parts": 3,
    "batch_size": 64,
    "lr": 0.05,
    "threads": 1,
    "progress": False,
}


def write_clusters(path, samples=700, classes=4, features=8, seed=0):
    """Clusters that a small network tells apart, with a clean test set."""
    generator = np.random.default_rng(seed)
    centres = 3 * generator.standard_normal((classes, features))

    def draw(count):
        labels = generator.integers(classes, size=count)
        x = centres[labels] + generator.standard_normal((count, features))
        return x.astype(np.float32), labels

    (x, y), (x_test, y_test) = draw(samples), draw(200)
    np.savez(path, x=x, y=y, x_test=x_test, y_test=y_test)
    return path


def quick_values(root, method, **changes):
    return {**QUICK, "data": str(root), "method": method, **changes}


def quick_settings(root, method, **changes):
    return resolve(quick_values(root, method, **changes), {})


def flags(values):
    """Settings as arguments of the command."""
    found = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            found.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            found += [flag, *map(str, value)]
        else:
            found += [flag, str(value)]
    return found


def run_script(script, *arguments, check=None, **options):
    """A Python script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )
    if check is not None:
        assert done.returncode == check, done.stdout + done.stderr
    return done


TRAIN = "import sys; from ptd_ext.cli import main; main(['train', *sys.argv[1:]])"


def outcome(folder):
    """The outcome that must not depend on interruptions: records, result without times, network."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    for record in (*records, result):
        record.pop("seconds")
    result.pop("sha256")  # files that name the folder of the cache
    tensors = model_tensors(folder)
    return records, result, {name: tensor.tolist() for name, tensor in tensors.items()}


def model_tensors(folder):
    """The tensors of the model of a finished run, by name."""
    return tensor_files.read(folder / "model.safetensors", "a fitted model", (), 2)[0]
