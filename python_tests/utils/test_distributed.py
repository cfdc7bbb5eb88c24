"""Ranks: one process costs nothing, and several see the same rows, gradients and values."""

import multiprocessing

import pytest
import torch
from torch import distributed as dist

from ptd_ext.utils import distributed
from ptd_ext.utils.distributed import Ranks, join

CPU = torch.device("cpu")


def test_one_process_changes_nothing():
    ranks, rows = Ranks(), torch.arange(6.0).view(3, 2)
    assert ranks.first
    assert ranks.share(rows) is rows
    assert ranks.gather(rows, 3) is rows
    assert torch.equal(ranks.sum_(rows), torch.arange(6.0).view(3, 2))
    assert ranks.first_row(3, CPU) == (0, 3)
    assert ranks.agree(5) == ranks.largest(5, CPU) == 5
    assert ranks.agree("a") == "a"
    ranks.wait()
    ranks.leave()


def test_shares_are_all_rows_in_order():
    ids = torch.arange(7)
    shares = [Ranks(rank, 3).share(ids) for rank in range(3)]
    assert [len(share) for share in shares] == [3, 2, 2]
    assert torch.equal(torch.cat(shares), ids)


def test_a_group_needs_torch_distributed(monkeypatch):
    assert Ranks.of_group(None).size == 1
    with pytest.raises(RuntimeError, match="process_group is given, but torch"):
        Ranks.of_group("world")


def test_without_torchrun_there_is_one_process(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join("cpu").size == 1
    assert not dist.is_initialized()


def test_a_group_of_one_is_left_alone(monkeypatch):
    """The caller's, who may have started it for other purposes."""
    destroyed = []
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: destroyed.append(1))
    Ranks().leave()
    assert destroyed == []
    Ranks(0, 2).leave()
    assert destroyed == [1]


def test_gradients_over_ranks(monkeypatch):
    """Another rank with gradients three times as large."""
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda flat, **_: flat.mul_(4))
    ranks = distributed.Ranks(0, 2)
    shapes = [(2, 3), (4,), ()]
    for factor in (1.0, 0.5):
        parameters = [torch.zeros(shape, requires_grad=True) for shape in shapes]
        gradients = [torch.randn(shape) for shape in shapes]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        without = torch.zeros(2, requires_grad=True)
        ranks.sum_gradients([*parameters, without], factor)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            torch.testing.assert_close(parameter.grad, 4 * factor * gradient)


def _rank(rank, path, results):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    ranks = Ranks.of_group("world")
    rows = torch.arange(5.0)[:, None] * torch.ones(2)
    mine = ranks.share(rows).clone().requires_grad_()
    gathered = ranks.gather(mine, 5)
    (gathered * torch.arange(1.0, 6.0)[:, None]).sum().backward()
    kept = torch.full((2,), float(rank + 1))
    ranks.from_first([kept])
    results.put(
        {
            "rank": (ranks.rank, ranks.size, ranks.first),
            "gathered": torch.equal(gathered.detach(), rows),
            "gradient": mine.grad[:, 0].tolist(),
            "sum": ranks.sum_(torch.tensor([1.0 + rank])).item(),
            "first_row": ranks.first_row(len(mine), CPU),
            "agree": ranks.agree(10 + rank),
            "largest": ranks.largest(10 + rank, CPU),
            "word": ranks.agree(f"rank {rank}"),
            "kept": kept.tolist(),
        }
    )
    ranks.wait()
    ranks.leave()


def test_two_processes(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=_rank, args=(rank, tmp_path / "store", results)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    found = sorted((results.get(timeout=60) for _ in processes), key=lambda each: each["rank"])
    for process in processes:
        process.join(60)
    shared = {"gathered": True, "sum": 3.0, "agree": 10, "largest": 11, "word": "rank 0"}
    shared["kept"] = [1.0, 1.0]
    assert found == [
        {"rank": (0, 2, True), "gradient": [1.0, 2.0, 3.0], "first_row": (0, 5)} | shared,
        {"rank": (1, 2, False), "gradient": [4.0, 5.0], "first_row": (3, 5)} | shared,
    ]
