"""Files of fitted models: what comes back, and what a forged one is rejected for."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from fuzz.limited import MEGABYTE, run_one

import ptd_ext
from ptd_ext.engine import networks
from ptd_ext.engine.model import model_file
from ptd_ext.engine.model.fitted_model import FittedModel, Validation
from ptd_ext.engine.model.members import Member
from ptd_ext.engine.rows.column import Column
from ptd_ext.engine.rows.columns import Columns
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.words import WordVectors
from ptd_ext.utils import tensor_files
from ptd_ext.utils.tensor_files import json_tensor

pandas = pytest.importorskip("pandas")
KIND, FORMAT = "a fitted model", 2
GONE = object()
ABOUT = {"method": "PTD-F", "validation": Validation(9, 0.5, True), "fingerprint": "f"}


def network(name="mlp", shape=(8,), classes=4, embedding=None):
    torch.manual_seed(0)
    return networks.build(name, classes, inputs=list(shape), embedding=embedding).eval()


def model(name="mlp", shape=(8,), embedding=None, preprocessing=None, parts=2):
    """A model of four classes that nobody has trained."""
    torch.manual_seed(1)
    part_transition = features = None
    made = network(name, shape, embedding=embedding)
    if parts:
        size = 128 if name == "mlp" else 8
        basis = torch.rand(parts, size) if parts > 1 else None
        part_transition = ptd_ext.PartTransition(torch.rand(parts, 4, 4).softmax(-1), basis)
        features = network(name, shape, embedding=embedding) if parts > 1 else None
    if preprocessing is None:
        preprocessing = Preprocessing.fit(torch.randn(20, *shape))[0]
    member = Member(name, made, features, part_transition)
    return FittedModel((member,), preprocessing, np.arange(4), **ABOUT, curves={"loss": [1, 0.5]})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def forge(path, changes=(), **about):
    """Write a file again, with a checksum that fits; None takes a tensor out, GONE metadata."""
    tensors, before = tensor_files.read(path, KIND, (), FORMAT)
    tensors |= {n: c(tensors.get(n)) if callable(c) else c for n, c in dict(changes).items()}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    about = {name: value for name, value in (before | about).items() if value is not GONE}
    tensor_files.write(path, KIND, tensors, about, FORMAT)


WEIGHT = "0.network.fc.weight"
UNSCALED = {"mean": None, "scale": None}
VALIDATION = {"rows": 9, "accuracy": 0.5, "beats_chance": True, "warning": ""}


@pytest.mark.parametrize(
    ("changes", "about", "message"),
    [
        ({}, {"shape": [2**40]}, r"at most 67,108,864 numbers; got \[1099511627776\]"),
        (
            {n: torch.ones(2**20).double() for n in ("mean", "scale")},
            {"shape": [2**20], "width": 2**20},
            r"fc1.weight must be torch.float32 \[128, 1048576\]; got torch.float32 \[128, 8\]",
        ),
        ({}, {"shape": [-8]}, r"shape must be .*got \[-8\]"),
        ({}, {"shape": GONE}, "it lacks 'shape'"),
        ({}, {"width": 9}, "width must be 8, as in shape; got 9"),
        ({}, {"networks": ["resnet18"]}, "resnet18 must get images"),
        ({}, {"networks": [5]}, "networks must be of linear, .*; got 5"),
        ({}, {"networks": ["os:abort"]}, "its network is your own, os:abort"),
        ({}, {"networks": []}, r"networks must be a list of names; got \[\]"),
        ({"classes": json_tensor([0, 1, 2, 3, 4])}, {}, r"T\(x\) must be of 5 classes; got 4"),
        ({"classes": json_tensor([0, 1, 1, 2])}, {}, "classes must be at least two, all different"),
        ({"classes": json_tensor([0, 1, 2, 2**70])}, {}, "too (large|big)"),
        ({"classes": json_tensor(["a", "b", "c", "d"])}, {}, "classes must be of the type <i8"),
        ({}, {"class_type": "," * 10_000}, "class_type must name a type of numbers or strings"),
        ({}, {"as_bytes": "no"}, "as_bytes must be true or false"),
        ({}, {"files": True}, "files must be true or false, and true for images only"),
        ({}, {"kind": "tokens", "shape": [1, 2, 4]}, r"shape must be \[D\], \[L\] or"),
        ({}, {"kind": "rows"}, "kind must be table, tokens, image; got 'rows'"),
        ({}, {"words": 7}, "words must be the number of words of tokens; got 7"),
        ({}, {"method": 3}, "method must be a string; got 3"),
        ({}, {"validation": {"rows": 1}}, "validation must hold rows, accuracy, beats_chance"),
        ({}, {"validation": {**VALIDATION, "rows": True}}, "validation must hold rows"),
        ({}, {"curves": {"loss": ["1"]}}, "curves must be lists of numbers by name"),
        ({}, {"parameters": {"n_parts": [3]}}, "parameters must be numbers and strings"),
        ({WEIGHT: torch.Tensor.double}, {}, "network must hold floats of one type"),
        ({WEIGHT: torch.Tensor.half}, {}, "fc.weight must hold finite numbers of 32 or 64 bits"),
        ({WEIGHT: torch.Tensor.long}, {}, r"fc.weight must be torch.float32 .* torch.int64"),
        ({WEIGHT: None}, {}, "it lacks network.fc.weight"),
        ({WEIGHT: lambda w: w / 0}, {}, "fc.weight must hold finite numbers"),
        ({"0.network.more": torch.ones(1)}, {}, "network.more is not a tensor of its network"),
        ({"scale": None}, {}, "mean and scale must both be there"),
        (UNSCALED, {}, "mean and scale must both be there"),
        ({"scale": torch.zeros_like}, {}, "scale must be from 1e-30"),
        ({"mean": torch.zeros(3)}, {}, r"mean must be floats \[8\]; got torch.float32 \[3\]"),
        ({"mean": torch.Tensor.long}, {}, r"mean must be floats \[8\]; got torch.int64 \[8\]"),
        ({"components": torch.ones(8, 3)}, {}, r"components must be \[8, 8\]; got \[8, 3\]"),
        ({"0.parts": torch.eye(3).expand(2, 3, 3)}, {}, r"T\(x\) must be of 4 classes; got 3"),
        ({"0.basis": torch.ones(2, 7)}, {}, r"representations of 128 numbers; it takes 7"),
        ({"0.basis": None}, {}, r"representations of 128 numbers; it takes none"),
        ({"0.parts": torch.eye(4)[None], "0.basis": None}, {}, "several parts needs a network"),
    ],
)
def test_forged_models(path, changes, about, message):
    """Rejected with the file's name, and without memory for the sizes that they name."""
    model().save(path)
    forge(path, changes, **about)
    with pytest.raises(ValueError, match=rf"model\.safetensors is not.*{message}.*\.$"):
        FittedModel.load(path)
    found = run_one(lambda: FittedModel.load(path), memory=256 * MEGABYTE)
    assert found.kind == "message", found


@pytest.mark.parametrize("prefix", ["0.network.", "0.feature_network."])
def test_a_network_without_weights(path, prefix):
    model().save(path)
    tensors, _ = tensor_files.read(path, KIND, (), FORMAT)
    forge(path, {name: None for name in tensors if name.startswith(prefix)})
    with pytest.raises(ValueError, match=r"lacks the weights of its network mlp|needs a network"):
        FittedModel.load(path)


def test_networks_with_and_without_a_transition(path):
    one, other = model(parts=1), model(parts=0)
    both = dataclasses.replace(one, members=one.members + other.members)
    both.save(path)
    with pytest.raises(ValueError, match=r"either all networks or none must have a T\(x\)"):
        FittedModel.load(path)


WORDS = WordVectors(("a", "b", "c"), torch.tensor([1.0, 1.5, 2.0]), torch.ones(2, 3))
TABLE = Columns(
    (
        Column("size", "number", "number", median=0.1, missing=True),
        Column("day", "date", spelling="day.month.year"),
        Column("kind", "category", categories=("x", "y"), missing=True),
        Column("id", "left out", "left out: …"),
        Column("note", "text", words=WORDS),
    )
)


def test_columns_come_back(path):
    """All that encodes a table is in the file, as plain data."""
    rows = dataclasses.replace(Preprocessing.fit(torch.randn(20, 8))[0], columns=TABLE)
    model(preprocessing=rows).save(path)
    found = FittedModel.load(path).preprocessing.columns
    words = found.entries[4].words
    assert words.words == WORDS.words
    for part in ("weights", "components"):
        assert torch.equal(getattr(words, part), getattr(WORDS, part))
    assert found.entries[:4] == TABLE.entries[:4]
    frame = pandas.DataFrame(
        {"size": [1, None], "day": ["1.2.2024", None], "kind": ["y", None], "note": ["a b", None]}
    )
    np.testing.assert_array_equal(found.encode(frame), TABLE.encode(frame))


def entry(position, **changes):
    """A change of an entry of the columns; GONE removes a field."""

    def change(about):
        fields = {**about["entries"][position], **changes}
        about["entries"][position] = {n: value for n, value in fields.items() if value is not GONE}
        return about

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: {**about, "entries": about["entries"][:1]}, "width must be 2"),
        (lambda about: {**about, "entries": 5}, "columns must be a list of entries"),
        (lambda about: {**about, "texts": 1}, "columns must be a list of entries"),
        (lambda about: {**about, "texts": True}, "texts must have one column, text"),
        (lambda about: {**about, "entries": [5]}, "a column must have name, kind"),
        (lambda about: 5, "is not a usable model"),
        (entry(0, name="day"), "columns must have different names"),
        (entry(0, name=5), "a column must have name, kind, note"),
        (entry(0, median=GONE), "it lacks 'median'"),
        (entry(0, median=1), "a column must have name, kind, note"),
        (entry(0, median=float("nan")), "finite numbers"),
        (entry(0, kind="code"), "kinds and medians of columns must be known"),
        (entry(1, spelling="%Y"), "spelling must be known; got '%Y'"),
        (entry(2, categories=["x", 5]), "categories of a column must be strings"),
        (entry(2, categories=["x", "x"]), "categories of a column must be different"),
        (entry(3, missing=True), "of kind left out must not mark missing values"),
        (entry(4, words=None), "texts must have words, and no other column"),
        (entry(0, words=["a"]), "texts must have words, and no other column"),
        (entry(4, words=["a", "b"]), r"weights of words must be positive numbers \[2\]"),
        (entry(4, words=["a", "b", "a"]), "words of a column must be different"),
        (entry(4, words=[]), "words must be from 1 to"),
    ],
)
def test_forged_columns(path, change, message):
    rows = dataclasses.replace(Preprocessing.fit(torch.randn(20, 8))[0], columns=TABLE)
    model(preprocessing=rows).save(path)

    def forged(content):
        content = json.dumps(change(json.loads(content.numpy().tobytes()))).encode()
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)

    forge(path, {"columns": forged})
    with pytest.raises(ValueError, match=message):
        FittedModel.load(path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("weights", None, "it lacks 'words.4.weights'"),
        ("weights", -torch.ones(3), "weights of words must be positive"),
        ("weights", torch.ones(3).double(), "weights of words must be positive"),
        ("weights", torch.ones(3) * torch.inf, "words.4.weights must hold finite numbers"),
        ("components", torch.ones(2, 4), r"components of words must be floats \[K, 3\]"),
        ("components", torch.ones(3), r"components of words must be floats \[K, 3\]"),
        ("components", torch.ones(0, 3), r"components of words must be floats \[K, 3\]"),
    ],
)
def test_forged_words(path, name, tensor, message):
    rows = dataclasses.replace(Preprocessing.fit(torch.randn(20, 8))[0], columns=TABLE)
    model(preprocessing=rows).save(path)
    forge(path, {f"words.4.{name}": tensor})
    with pytest.raises(ValueError, match=message):
        FittedModel.load(path)


@pytest.mark.parametrize("name", ["linear", "mlp", "lenet5", "resnet18", "news_conv"])
def test_every_network_comes_back(path, name):
    """Built without memory of its own, it gives what the network of the file gave."""
    embedding = torch.randn(6, 3) if name == "news_conv" else None
    shape = [8] if name in ("linear", "mlp", "news_conv") else [3, 32, 32]
    preprocessing = None
    if name == "news_conv":
        preprocessing = Preprocessing("tokens", torch.Size(shape), 8, words=6)
    saved = model(name, shape, embedding, preprocessing, parts=0)
    saved.save(path)
    loaded = FittedModel.load(path).members[0].network
    x = torch.randint(6, (2, 8)) if embedding is not None else torch.randn(2, *shape)
    with torch.no_grad():
        expected, found = saved.members[0].network(x), loaded(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not any(t.is_meta for t in (*loaded.parameters(), *loaded.buffers()))
    assert not loaded.training


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing("tokens", torch.Size([8]), 8, words=6),
        Preprocessing.for_images([3, 32, 32], [0.1] * 3, [0.2] * 3, as_bytes=True, files=True),
        Preprocessing.for_images([3, 32, 32], None, None, as_bytes=False),
        dataclasses.replace(
            Preprocessing.fit(torch.randn(20, 8))[0],
            columns=Columns(
                (Column("a", "number"), Column("b", "category", categories=tuple("1234567")))
            ),
        ),
        dataclasses.replace(
            Preprocessing.fit(torch.randn(20, 8))[0], components=torch.ones(8, 30), width=30
        ),
    ],
    ids=["tokens", "files", "images", "frame", "sparse"],
)
def test_every_preprocessing_comes_back(path, preprocessing):
    name = {"tokens": "news_conv", "image": "lenet5", "table": "mlp"}[preprocessing.kind]
    embedding = torch.randn(6, 3) if name == "news_conv" else None
    model(name, preprocessing.shape, embedding, preprocessing, parts=0).save(path)
    found, expected = vars(FittedModel.load(path).preprocessing), vars(preprocessing)
    assert set(found) == set(expected)
    for field, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[field], value, rtol=0, atol=0)
        else:
            assert found[field] == value, field


def own(classes, inputs):
    return network("mlp", inputs, classes)


def test_a_network_of_ones_own_is_imported_only_if_it_is_named(path):
    made = model()
    member = dataclasses.replace(made.members[0], name="ptd_ext.engine.networks.mlp:MLP")
    dataclasses.replace(made, members=(member,)).save(path)
    for given in (None, "ptd_ext.engine.networks.mlp:Other", "mlp"):
        with pytest.raises(ValueError, match=r"is your own, ptd_ext.*give that name"):
            FittedModel.load(path, network=given)
    rows = np.ones((2, 8))
    for given in (member.name, own):
        found = FittedModel.load(path, network=given)
        np.testing.assert_allclose(found.predict_proba(rows), made.predict_proba(rows))


def test_the_metadata_comes_back(path):
    given = {"n_parts": 2, "network": "auto", "flag_share": 0.5, "random_state": None}
    dataclasses.replace(model(), parameters=given).save(path)
    found = FittedModel.load(path)
    assert found.parameters == model_file.read(path, None)[-1]["parameters"] == given
    assert (found.method, found.fingerprint, found.curves) == ("PTD-F", "f", {"loss": [1, 0.5]})
    assert found.validation == ABOUT["validation"]
    assert found.outcome is None


def test_classes_that_json_does_not_keep_are_not_written(path):
    odd = dataclasses.replace(model(), classes=np.array([b"a", b"b", b"c", b"d"]))
    with pytest.raises(TypeError, match="classes must be numbers or strings to be saved; b'a'"):
        odd.save(path)
    assert not path.exists()
