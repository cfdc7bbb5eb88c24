"""Messages for a user whose GPU cannot run this build."""

import pytest
import torch

from ptd_ext import _C
from ptd_ext.ops import devices


class OnGpu:
    """As much of a CUDA tensor as check_device looks at."""

    is_cpu, is_cuda = False, True
    device = torch.device("cuda", 1)


@pytest.fixture
def built(monkeypatch):
    """Pretend a build for these architectures and a GPU of this capability, and count questions."""

    def pretend(archs, capability):
        asked = []
        monkeypatch.setattr(_C, "build_info", lambda: {"cuda": bool(archs), "cuda_archs": archs})
        monkeypatch.setattr(
            torch.cuda, "get_device_capability", lambda index: asked.append(index) or capability
        )
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla V100")
        return asked

    devices.unsupported.cache_clear()
    yield pretend
    devices.unsupported.cache_clear()


def test_cpu_tensors_ask_nothing(built):
    asked = built([], (7, 0))
    devices.check_device(torch.zeros(2, 2))
    assert asked == []


def test_answer_is_remembered(built):
    asked = built(["70", "80"], (7, 0))
    for _ in range(3):
        devices.check_device(OnGpu())
    assert asked == [1]


def test_cpu_only_build(built):
    built([], (7, 0))
    with pytest.raises(
        RuntimeError, match=r"on cuda:1, but .* has only CPU kernels: .*PTD_EXT_CUDA=on"
    ):
        devices.check_device(OnGpu())


def test_unsupported_architecture(built):
    built(["75", "80", "90"], (7, 0))
    with pytest.raises(RuntimeError, match="Tesla V100, has architecture 70, but") as caught:
        devices.check_device(OnGpu())
    assert "for 75, 80, 90: " in str(caught.value)
    assert "`PTD_EXT_CUDA_ARCHS=70 pip install .` and a CUDA 12 toolkit" in str(caught.value)
    with pytest.raises(RuntimeError):  # remembered, and still an error
        devices.check_device(OnGpu())


@pytest.mark.parametrize(
    ("capability", "archs", "covered"),
    [
        ((7, 0), ["70"], True),
        ((7, 0), ["75"], False),
        ((7, 5), ["70"], True),
        ((8, 0), ["70"], True),  # PTX of the newest
        ((8, 6), ["75", "80", "90"], True),
        ((8, 0), ["75", "86"], False),
        ((7, 2), ["75", "80"], False),
        ((10, 0), ["75", "90"], True),
        ((12, 0), ["120"], True),
        ((9, 0), ["100", "120"], False),
    ],
)
def test_coverage(capability, archs, covered):
    assert devices.is_covered(capability, archs) is covered
