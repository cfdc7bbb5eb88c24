"""Files of torch.save, read without torch.load: the same tensors, and bounds on what is held."""

import struct
from collections import OrderedDict

import numpy as np
import pytest
import torch

from ptd_ext.utils.formats.torch_files import read_torch


def contents():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    network = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    kinds = (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.bool)
    return {
        "state dict": network.state_dict(),
        "parameters": OrderedDict(a=torch.nn.Parameter(base), b=base.clone()),
        "views": {"a": base, "b": base.T, "c": base[1:, ::2], "d": base[3, 5], "same": base},
        "types": {str(kind): base.to(kind) for kind in kinds},
        "empty": {"a": torch.empty(0, 3), "b": torch.empty(0)},
        "arrays": {"a": np.arange(5), "b": np.arange(6, dtype=">i4"), "list": [1, 2]},
        "tensor": base,
    }


@pytest.mark.parametrize("name", contents())
@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_load_gives(tmp_path, name, zipped):
    content = contents()[name]
    path = tmp_path / "file.pt"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    found = read_torch(path)
    if not isinstance(content, dict):
        content, found = {"": content}, {"": found}
    assert list(found) == list(content)
    for key, expected in content.items():
        if torch.is_tensor(expected):
            assert found[key].dtype == expected.dtype
            assert torch.equal(found[key], expected.detach())
        else:
            assert np.array_equal(found[key], expected)


def test_a_parameter_of_old(tmp_path):
    """Protocol 2 writes objects as NEWOBJ and sets their state."""
    path = tmp_path / "old.pt"
    torch.save({"a": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    name = b"ctorch._utils\n_rebuild_tensor_v2\n"
    assert name in content
    start, end = content.index(name), content.rindex(b"Rq")
    tensor = content[start : end + 1]
    wrapped = b"ctorch.nn.parameter\nParameter\n" + tensor + b"\x85\x81\x88N\x86b"
    path.write_bytes(content.replace(tensor, wrapped))
    assert torch.equal(read_torch(path)["a"], torch.ones(3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"K\x03\x85", b"J\0\0\0\x40\x85", "larger than its storage"),
        (b"LongStorage", b"EvilStorage", "asks for torch.EvilStorage"),
        (b"K\x00K\x03\x85", b"J\xff\xff\xff\xffK\x03\x85", "that no storage can have"),
        (struct.pack("<q", 3) + struct.pack("<q", 7), struct.pack("<qq", 1 << 40, 7), "cut off"),
    ],
)
def test_tensors_that_lie(tmp_path, old, new, message):
    path = tmp_path / "file.pt"
    torch.save({"a": torch.tensor([7, 8, 9])}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"file\.pt .*{message}"):
        read_torch(path)
