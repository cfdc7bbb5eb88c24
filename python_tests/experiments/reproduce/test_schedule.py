"""The order of cells, and their division among machines."""

from itertools import chain

import pytest

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.reproduce.grid import Cell, grid
from ptd_ext.experiments.reproduce.schedule import shard, start_order

TABLE = grid("mnist", [40, 50], list(METHODS), [0, 1, 2])
ABLATION = grid("cifar10", [50], ["Forward-band", "PTD-F"], [0, 1], [10, 11, 12])


def test_one_cell_per_group_starts_first():
    order = start_order(TABLE)
    assert sorted(order, key=TABLE.index) == TABLE
    assert {cell.group for cell in order[: 2 * 3]} == {
        ("mnist", r, s) for r in (40, 50) for s in range(3)
    }


def test_a_warm_up_in_the_cache_is_not_made_first():
    joint, forward, ptd = (Cell("mnist", 50, m, 0) for m in ("Joint", "Forward", "PTD-F"))
    assert start_order([forward, joint]) == [forward, joint]
    assert start_order([forward, joint], [forward.group]) == [joint, forward]
    assert start_order([joint, ptd, forward], [None])[0] == ptd


def test_warm_ups_start_first_and_then_the_longest():
    methods = ["CE", "Joint", "Forward", "PTD-R-V", "Decoupling"]
    order = [(c.method, c.seed) for c in start_order(grid("mnist", [50], methods, [0, 1]))]
    assert order[:2] == [("PTD-R-V", 0), ("PTD-R-V", 1)]
    costs = [METHODS[method].cost for method, _ in order[2:]]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("cells", [TABLE, ABLATION, TABLE[:1], []], ids=len)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 500])
def test_every_cell_is_in_exactly_one_shard(cells, count):
    shards = [shard(cells, index, count) for index in range(1, count + 1)]
    assert sorted(chain(*shards), key=cells.index) == cells
    for part in shards:
        assert part == sorted(part, key=cells.index)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_a_warm_up_group_is_in_one_shard(count):
    home = {}
    for index in range(1, count + 1):
        for cell in shard(TABLE, index, count):
            if cell.group is not None:
                assert home.setdefault(cell.group, index) == index
    assert len(set(home.values())) == min(count, 6)


def test_shards_cost_about_the_same():
    table = grid("mnist", [10, 20, 30, 40, 50], list(METHODS), list(range(5)))
    costs = [sum(c.entry.cost for c in shard(table, index, 4)) for index in (1, 2, 3, 4)]
    assert max(costs) < 1.02 * min(costs)
