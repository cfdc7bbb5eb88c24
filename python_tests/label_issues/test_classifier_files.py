"""Files of a classifier that are forged: each is refused when it is loaded, with its name."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

import ptd_ext
from ptd_ext.label_issues._files import _KIND
from ptd_ext.utils import tensor_files

RANDOM = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = RANDOM.normal(size=(60, 2)) + LABELS[:, None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Tensors and words of a classifier of rows with three classes, of two parts."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model = ptd_ext.PTDClassifier("PTD-F", network="mlp", max_epochs=1, n_parts=2, random_state=0)
    model.fit(ROWS, np.array(["a", "b", "c"])[LABELS]).save(path)
    return tensor_files.read(path, _KIND, ())


def wider(tensor):
    return torch.cat([tensor, tensor])


WORDS = {
    "no network": {"networks": []},
    "a network without a name": {"networks": [None]},
    "a type by Python's parser": {"class_type": "," * 10_000},
    "a structure": {"class_type": "i4,f8"},
    "another type": {"class_type": "<i8"},
    "a type that is none": {"class_type": 7},
    "fewer classes": {"classes": ["a", "b"]},
    "more classes": {"classes": ["a", "b", "c", "d"]},
    "equal classes": {"classes": ["a", "b", "b"]},
    "nested classes": {"classes": [["a"], ["b"], ["c"]]},
    "a class that is none": {"classes": ["a", "b", None]},
    "classes in one text": {"classes": "abc"},
    "an unknown kind": {"kind": "zzz"},
    "images of rows": {"kind": "image"},
    "a width of text": {"width": "2"},
    "another width": {"width": 3},
    "no inputs": {"inputs": []},
    "inputs of text": {"inputs": ["2"]},
    "other inputs": {"inputs": [3]},
    "huge inputs": {"inputs": [3, 10**12, 10**12]},
    "columns that are none": {"columns": 5},
    "other columns": {"columns": [["x"], [None]]},
    "numbers as columns": {"columns": [[1, 2], [None, None]]},
    "columns of the same name": {"columns": [["x", "x"], [None, None]]},
    "an unknown parameter": {"parameters": {"depth": 3}},
    "nested parameters": {"parameters": {"n_parts": [3]}},
    "another network": {"networks": ["linear"]},
    "a network of images": {"networks": ["resnet18"]},
    "more networks": {"networks": ["mlp", "mlp"]},
}
TENSORS = {
    "a longer mean": ("mean", wider),
    "a mean of images": ("mean", lambda t: t[:, None, None]),
    "a mean of whole numbers": ("mean", torch.Tensor.long),
    "a mean of NaN": ("mean", lambda t: t * torch.nan),
    "a longer scale": ("scale", wider),
    "a scale of zero": ("scale", torch.zeros_like),
    "a negative scale": ("scale", torch.neg),
    "parts of three numbers": ("0.parts", lambda t: t[:, :2]),
    "fewer parts": ("0.parts", lambda t: t[:1]),
    "parts of another type": ("0.parts", torch.Tensor.half),
    "a smaller basis": ("0.basis", lambda t: t[:, :5]),
    "no basis": ("0.basis", None),
    "no weights": ("0.network.fc.weight", None),
    "weights of NaN": ("0.network.fc.weight", lambda t: t * torch.nan),
    "other weights": ("0.network.fc.weight", wider),
    "weights of whole numbers": ("0.network.fc.weight", torch.Tensor.long),
    "components of rows": ("components", lambda t: torch.ones(2, 3)),
}


@pytest.mark.parametrize("case", [*WORDS, *TENSORS])
def test_forged_files_are_refused_when_they_are_loaded(saved, tmp_path, case):
    path = tmp_path / "forged.safetensors"
    tensors, about = dict(saved[0]), {**saved[1], **WORDS.get(case, {})}
    if case in TENSORS:
        name, change = TENSORS[case]
        before = tensors.pop(name, None)
        if change is not None:
            tensors[name] = change(before)
    tensor_files.write(path, _KIND, tensors, about)
    with pytest.raises(
        ValueError, match=r"forged\.safetensors (holds no usable|must name)"
    ) as said:
        ptd_ext.PTDClassifier.load(path)
    assert str(said.value).endswith(".")
    assert len(str(said.value)) < 500


@pytest.mark.parametrize(
    "classes",
    [
        ["a", "b", "c" * 100],
        [0, 1, 2],
        [False, True, 7],
        [1.0, 2.0, 3.0],
        np.array([3, 4, 5], dtype=np.uint8),
        np.array(["x", "y", "z"], dtype=object),
        [2**70, 1, -1],
    ],
)
def test_classes_of_every_kind_come_back(tmp_path, classes):
    model = ptd_ext.PTDClassifier("EM-F", network="linear", max_epochs=1, random_state=0)
    model.fit(ROWS, [classes[label] for label in LABELS]).save(tmp_path / "m")
    found = ptd_ext.PTDClassifier.load(tmp_path / "m")
    assert found.classes_.tolist() == model.classes_.tolist()
    assert found.classes_.dtype == model.classes_.dtype
    assert found.predict(ROWS).tolist() == model.predict(ROWS).tolist()
