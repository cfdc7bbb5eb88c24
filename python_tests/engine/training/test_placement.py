"""The device, and what is kept on it."""

import pytest
import torch

from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import split_data
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training.placement import Placement, build_network, keeps_data
from ptd_ext.utils.distributed import Ranks

CPU = torch.device("cpu")


@pytest.fixture
def data():
    preprocessing, stored = Preprocessing.fit(torch.rand(8, 3, 16, 16))
    positions = torch.arange(6), torch.arange(6, 8)
    return split_data(stored, torch.arange(8) % 2, ("a", "b"), preprocessing, positions)


@pytest.mark.parametrize(("resident", "kept"), [("auto", True), ("yes", True), ("no", False)])
def test_the_cpu_keeps_the_data_by_default(data, resident, kept):
    assert keeps_data(Settings(resident=resident), data, CPU) is kept


@pytest.mark.parametrize(("free", "kept"), [(100_000, True), (40_000, False)])
def test_a_gpu_keeps_what_fits_in_half_its_free_memory(data, monkeypatch, free, kept):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10**9))
    assert data.bytes() == 8 * 3 * 16 * 16 * 4
    assert keeps_data(Settings(), data, torch.device("cuda")) is kept


def test_weights_are_a_function_of_the_seed(data):
    settings = Settings(network="lenet5", channels_last=True)
    state = torch.get_rng_state()
    first, again, other = (build_network(settings, data, CPU, Ranks(), seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    weights = [next(network.parameters()) for network in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert weights[0].is_contiguous(memory_format=torch.channels_last)


def test_settings_that_name_no_device():
    assert Placement.from_settings(Settings(device="cpu")).device == CPU
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:1; got 'warp:9'"):
        Placement.from_settings(Settings(device="warp:9"))
