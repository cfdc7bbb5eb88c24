"""The device that a user names, on machines with and without GPUs."""

import pytest
import torch

from ptd_ext.utils.chosen_device import chosen_device


@pytest.fixture
def gpus(monkeypatch):
    """Pretend that torch finds this many GPUs."""

    def find(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return find


@pytest.mark.parametrize("given", [None, "auto"])
def test_auto_is_a_gpu_if_there_is_one(gpus, given):
    gpus(0)
    assert chosen_device(given) == torch.device("cpu")
    gpus(1)
    assert chosen_device(given) == torch.device("cuda")


def test_devices_that_work(gpus):
    gpus(2)
    for given in ("cpu", "cuda", "cuda:0", "cuda:1", torch.device("cuda", 1)):
        assert chosen_device(given) == torch.device(given)


def test_gpus_that_are_not_there(gpus):
    gpus(0)
    with pytest.raises(ValueError, match="device is cuda:0, but torch finds no GPU; use cpu or"):
        chosen_device("cuda:0")
    gpus(2)
    with pytest.raises(ValueError, match="--device is cuda:2, but the last GPU is cuda:1"):
        chosen_device("cuda:2", "--device")


@pytest.mark.parametrize("given", ["", "gpu", "cuda:x", 1.5, [], "cpu:a"])
def test_what_is_not_a_device(given):
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:1; got "):
        chosen_device(given)


@pytest.mark.parametrize("given", ["meta", "xpu"])
def test_devices_that_hold_no_numbers(given):
    with pytest.raises(ValueError, match=f"device is {given}, which this torch cannot use"):
        chosen_device(given)
