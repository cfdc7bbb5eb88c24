"""The folder of an experiment: its name, and whose content it holds."""

import json
from types import SimpleNamespace

import pytest
from training_cases import quick_settings

from ptd_ext.experiments.run.experiment_folder import (
    check_folder,
    new_folder,
    read_finished,
    result_name,
)
from ptd_ext.experiments.toml import write_config
from ptd_ext.utils.distributed import Ranks

RESULT = {"test_accuracy": 90.0, "test_accuracy_last": 80, "fingerprint": "data"}
RESULT |= {"sha256": {}}
PROBLEM = SimpleNamespace(fingerprint=lambda: "data")


def test_folders_are_numbered(tmp_path):
    found = [new_folder("digits", Ranks(), tmp_path / "runs").name for _ in range(3)]
    assert found == ["digits", "digits-2", "digits-3"]


def test_a_free_folder_and_one_of_these_settings(tmp_path):
    settings = quick_settings("d.npz", "CE")
    check_folder(settings, tmp_path, False)
    write_config(vars(settings), tmp_path / "settings.toml")
    check_folder(settings.replace(threads=4), tmp_path, True)
    with pytest.raises(FileExistsError, match="holds a run already: continue it with --resume"):
        check_folder(settings, tmp_path, False)
    with pytest.raises(ValueError, match=r"other settings: lr was 0.05 and is 0.5"):
        check_folder(settings.replace(lr=0.5), tmp_path, True)


@pytest.mark.parametrize("name", ["checkpoint.pt", "metrics.jsonl", "model.safetensors"])
def test_files_of_somebody_else(tmp_path, name):
    (tmp_path / name).touch()
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=f"holds a {name}, but no settings.toml"):
            check_folder(quick_settings("d.npz", "CE"), tmp_path, resume)


def test_a_finished_result_is_read(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(RESULT))
    assert read_finished(tmp_path / "result.json", PROBLEM) == RESULT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "other"}, "on other data: their fingerprint was other, and that .* data"),
        ({"test_accuracy": "90"}, "with a number test_accuracy; got '90'"),
        ({"test_accuracy_last": float("inf")}, "with a number test_accuracy_last; got inf"),
    ],
)
def test_results_of_other_data_and_none(tmp_path, change, message):
    (tmp_path / "result.json").write_text(json.dumps(RESULT | change))
    with pytest.raises(ValueError, match=message):
        read_finished(tmp_path / "result.json", PROBLEM)


def test_names_of_splits():
    assert result_name({}, "test") == "clean test"
    assert result_name({}, "validation") == "noisy validation"
    assert result_name({"test_labels": "given"}, "test") == "given-label test"
