"""Noise sets and part transitions as files: what goes in comes out, and damage is noticed."""

import dataclasses
import json
import os

import pytest
import torch
from random_numbers import new_generator
from safetensors import safe_open
from safetensors.torch import save_file

import ptd_ext
from ptd_ext.utils import tensor_files
from ptd_ext.utils.atomic_files import write_text

LABELS = torch.arange(60) % 5


@pytest.fixture
def noise():
    features = torch.rand(60, 8, generator=new_generator(0))
    return ptd_ext.instance_dependent_noise(
        features, LABELS, 0.4, random_state=7, inputs="standardised", ids=torch.arange(60) * 3
    )


@pytest.fixture
def part_transition():
    g = new_generator(0)
    parts = torch.rand(4, 5, 5, generator=g).softmax(-1)
    basis, slack = torch.randn(4, 8, generator=g), torch.randn(5, 5, generator=g)
    return ptd_ext.PartTransition(parts, basis, slack, about={"data": "digits", "seed": 7})


@pytest.fixture(params=["noise", "part transition"])
def saved(request, tmp_path, noise, part_transition):
    """A file and how to load it."""
    path = tmp_path / "saved.safetensors"
    if request.param == "noise":
        noise.save(path)
        return path, ptd_ext.noise.LabelNoise.load
    part_transition.save(path)
    return path, ptd_ext.PartTransition.load


@pytest.mark.parametrize("with_basis", [True, False])
@pytest.mark.parametrize("with_slack", [True, False])
def test_part_transition_comes_back(part_transition, with_basis, with_slack, tmp_path):
    kept = ptd_ext.PartTransition(
        ptd_ext.ops.prepare_parts(part_transition.parts),  # not contiguous
        part_transition.basis if with_basis else None,
        part_transition.slack if with_slack else None,
        about=part_transition.about,
    )
    kept.save(tmp_path / "kept")
    loaded = ptd_ext.PartTransition.load(tmp_path / "kept")
    for name in ("parts", "basis", "slack"):
        ours, theirs = getattr(loaded, name), getattr(kept, name)
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    assert loaded.about == kept.about
    assert repr(loaded) == repr(kept)


def test_any_safetensors_reader_can_open_it(saved):
    path, _ = saved
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["ptd_ext"])
    assert header["version"] == 1
    assert "about" in header


def test_saving_replaces_and_leaves_nothing_behind(saved, part_transition):
    path, _ = saved
    part_transition.save(path)
    assert os.listdir(path.parent) == [path.name]
    assert ptd_ext.PartTransition.load(path).about == part_transition.about


def test_a_failed_save_leaves_the_old_file(part_transition, tmp_path):
    path = tmp_path / "kept"
    part_transition.save(path)
    part_transition.about["network"] = object()
    with pytest.raises(TypeError, match="not JSON serializable"):
        part_transition.save(path)
    assert os.listdir(tmp_path) == ["kept"]
    assert ptd_ext.PartTransition.load(path).about == {"data": "digits", "seed": 7}


def test_every_flipped_bit_is_noticed(saved):
    path, load = saved
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 97)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|not written by ptd_ext|version|must hold"):
            load(path)


def test_cut_and_foreign_files(saved):
    path, load = saved
    content = path.read_bytes()
    for length in (0, 5, 8, 100, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="damaged or not a safetensors file"):
            load(path)
    path.write_bytes(b"not a tensor in sight" * 10)
    with pytest.raises(ValueError, match="damaged or not a safetensors file"):
        load(path)
    save_file({"parts": torch.rand(2, 3, 3)}, path)
    with pytest.raises(ValueError, match="was not written by ptd_ext: its header has no 'ptd_ext'"):
        load(path)
    save_file({"parts": torch.rand(2, 3, 3)}, path, metadata={"ptd_ext": "{}"})
    with pytest.raises(ValueError, match="is damaged: its header cannot be read"):
        load(path)


def test_the_other_kind(noise, part_transition, tmp_path):
    noise.save(tmp_path / "a")
    part_transition.save(tmp_path / "b")
    with pytest.raises(ValueError, match="must hold a part transition; it holds label noise"):
        ptd_ext.PartTransition.load(tmp_path / "a")
    with pytest.raises(ValueError, match="must hold label noise; it holds a part transition"):
        ptd_ext.noise.LabelNoise.load(tmp_path / "b")


def test_other_formats(tmp_path):
    tensor_files.write(tmp_path / "new", "shoes", {}, {}, version=3)
    assert tensor_files.read(tmp_path / "new", "shoes", (), version=3) == ({}, {})
    message = (
        "new was written by another version of ptd_ext: it holds shoes in format 3, and this "
        "version reads format 1. Create it again."
    )
    with pytest.raises(ValueError, match=message):
        tensor_files.read(tmp_path / "new", "shoes", ("size",))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64])
def test_types_that_are_never_written(noise, part_transition, dtype, tmp_path):
    part_transition.parts = part_transition.parts.to(dtype)
    part_transition.save(tmp_path / "parts")
    with pytest.raises(ValueError, match=f"parts is {dtype}"):
        ptd_ext.PartTransition.load(tmp_path / "parts")
    dataclasses.replace(noise, rows=noise.rows.to(dtype)).save(tmp_path / "noise")
    with pytest.raises(ValueError, match=f"types that ptd_ext writes; rows is {dtype}"):
        ptd_ext.noise.LabelNoise.load(tmp_path / "noise")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (torch.full((2, 3, 3), -0.1), "parts must not be negative; the smallest entry is -0.1"),
        (torch.rand(0, 3, 3), r"parts must not be empty; got \[0, 3, 3\]"),
        (torch.rand(2, 0, 0), r"must not be empty; got \[2, 0, 0\]"),
        (torch.full((2, 3, 3), float("inf")), "parts must be finite"),
    ],
)
def test_parts_that_no_transition_has(part_transition, parts, message, tmp_path):
    part_transition.parts, part_transition.basis, part_transition.slack = parts, None, None
    part_transition.save(tmp_path / "parts")
    with pytest.raises(ValueError, match=f"parts holds no usable part transition: .*{message}"):
        ptd_ext.PartTransition.load(tmp_path / "parts")


def test_headers_that_cost_much(saved):
    path, load = saved
    header = json.dumps({"__metadata__": {"ptd_ext": "[" * 100_000}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="is damaged: its header cannot be read"):
        load(path)
    path.write_bytes((1 << 21).to_bytes(8, "little") + b" " * (1 << 21) + b"x")
    with pytest.raises(ValueError, match=r"a header of at most 1,048,576 bytes; it has 2,097,152"):
        load(path)


def test_many_names_count_for_the_header(tmp_path, monkeypatch):
    monkeypatch.setattr("ptd_ext.utils.tensor_files._MAX_HEADER", 900)
    tensors = {f"t{number}": torch.zeros(1) for number in range(4)}
    with pytest.raises(ValueError, match="f cannot be written: names and metadata of 9"):
        tensor_files.write(tmp_path / "f", "numbers", tensors, {})
    assert os.listdir(tmp_path) == []
    del tensors["t0"]
    tensor_files.write(tmp_path / "f", "numbers", tensors, {})


def test_no_such_place(noise, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a file"):
        ptd_ext.noise.LabelNoise.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"cannot be written: .*folder is not a folder"):
        noise.save(tmp_path / "folder" / "noise")


def test_a_text_is_written_atomically(tmp_path):
    path = tmp_path / "table.md"
    write_text(path, "± before")
    with pytest.raises(TypeError):
        write_text(path, ["not text"])
    assert path.read_text(encoding="utf-8") == "± before"
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        write_text(tmp_path / "none" / "table.md", "")


def test_values_as_tensors():
    value = {"names": ["a", "\ud800", "ü"], "number": 2**70, "none": None}
    assert tensor_files.json_of(tensor_files.json_tensor(value)) == value
    with pytest.raises(ValueError, match="Expecting value"):
        tensor_files.json_of(torch.zeros(3, dtype=torch.uint8) + 65)
