"""Files of a classifier that are forged: each is refused when it is loaded, with its name."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

import ptd_ext
from ptd_ext.utils import tensor_files

_KIND, _FORMAT = "a fitted model", 2
RANDOM = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = RANDOM.normal(size=(60, 2)) + LABELS[:, None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Tensors and words of a classifier of rows with three classes, of two parts."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model = ptd_ext.PTDClassifier("PTD-F", network="mlp", epochs=1, n_parts=2, random_state=0)
    model.fit(ROWS, np.array(["a", "b", "c"])[LABELS]).save(path)
    return tensor_files.read(path, _KIND, (), _FORMAT)


def wider(tensor):
    return torch.cat([tensor, tensor])


def as_bytes(words):
    return torch.tensor(list(json.dumps(words).encode()), dtype=torch.uint8)


WORDS = {
    "no network": {"networks": []},
    "a network without a name": {"networks": [None]},
    "a type by Python's parser": {"class_type": "," * 10_000},
    "a structure": {"class_type": "i4,f8"},
    "another type": {"class_type": "<i8"},
    "a type that is none": {"class_type": 7},
    "an unknown kind": {"kind": "zzz"},
    "images of rows": {"kind": "image"},
    "a width of text": {"width": "2"},
    "another width": {"width": 3},
    "no shape": {"shape": []},
    "a shape of text": {"shape": ["2"]},
    "another shape": {"shape": [3]},
    "a huge shape": {"shape": [10**12]},
    "an unknown parameter": {"parameters": {"depth": 3}},
    "nested parameters": {"parameters": {"n_parts": [3]}},
    "another network": {"networks": ["linear"]},
    "a network of images": {"networks": ["resnet18"]},
    "more networks": {"networks": ["mlp", "mlp"]},
}
TENSORS = {
    "classes in one text": ("classes", lambda _: as_bytes("abc")),
    "a class that is none": ("classes", lambda _: as_bytes(["a", "b", None])),
    "nested classes": ("classes", lambda _: as_bytes([["a"], ["b"], ["c"]])),
    "equal classes": ("classes", lambda _: as_bytes(["a", "b", "b"])),
    "more classes": ("classes", lambda _: as_bytes(["a", "b", "c", "d"])),
    "fewer classes": ("classes", lambda _: as_bytes(["a", "b"])),
    "columns that are none": ("columns", lambda _: as_bytes(5)),
    "columns of no words": ("columns", lambda _: torch.zeros(3)),
    "other columns": ("columns", lambda _: as_bytes([["x"], [None]])),
    "numbers as columns": ("columns", lambda _: as_bytes([[1, 2], [None, None]])),
    "columns of the same name": ("columns", lambda _: as_bytes([["x", "x"], [None, None]])),
    "nested columns": ("columns", lambda _: as_bytes([[["x"], "y"], [None, None]])),
    "columns without end": ("columns", lambda _: torch.full((100_000,), 91, dtype=torch.uint8)),
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
    tensor_files.write(path, _KIND, tensors, about, _FORMAT)
    with pytest.raises(ValueError, match=r"forged\.safetensors is not a usable") as said:
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
    model = ptd_ext.PTDClassifier("EM-F", network="linear", epochs=1, random_state=0)
    model.fit(ROWS, [classes[label] for label in LABELS]).save(tmp_path / "m")
    found = ptd_ext.PTDClassifier.load(tmp_path / "m")
    assert found.classes_.tolist() == model.classes_.tolist()
    assert found.classes_.dtype == model.classes_.dtype
    assert found.predict(ROWS).tolist() == model.predict(ROWS).tolist()


def test_columns_of_many_long_categories(tmp_path):
    """More words than the header of a file may have."""
    pandas = pytest.importorskip("pandas")
    kinds = [f"{number} {'x' * 2000}" for number in range(200)]
    frame = pandas.DataFrame({f"c{k}": kinds * 2 for k in range(3)})
    model = ptd_ext.PTDClassifier("EM-F", network="linear", epochs=1, random_state=0)
    model.fit(frame, np.arange(400) % 2).save(tmp_path / "m")
    found = ptd_ext.PTDClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(found.predict_proba(frame), model.predict_proba(frame))
    assert found.feature_names_in_.tolist() == ["c0", "c1", "c2"]


def test_classes_with_longer_names_than_a_header_has_room_for(tmp_path):
    model = ptd_ext.PTDClassifier("EM-F", network="linear", epochs=1, random_state=0)
    model.fit(ROWS, ["x" * 2_000_000 if label else "y" for label in LABELS])
    model.save(tmp_path / "m")
    found = ptd_ext.PTDClassifier.load(tmp_path / "m")
    assert found.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"network": "os:abort"}, "its network is os:abort. If it is your own, give its name"),
        ({"encoder": __file__}, "it sets device, encoder, progress"),
        ({"device": "cpu"}, "it sets device, encoder, progress"),
        ({"progress": True}, "it sets device, encoder, progress"),
    ],
)
def test_a_file_names_no_code_or_machine(saved, tmp_path, parameters, message):
    """What `fit` would import, read or run comes from the caller alone."""
    path = tmp_path / "forged.safetensors"
    tensors, about = saved
    tensor_files.write(path, _KIND, tensors, {**about, "parameters": parameters}, _FORMAT)
    with pytest.raises(ValueError, match=message):
        ptd_ext.PTDClassifier.load(path)
    assert not {"device", "encoder", "progress"} & set(about["parameters"])
