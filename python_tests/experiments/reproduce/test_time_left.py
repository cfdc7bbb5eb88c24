"""The estimate of the time left."""

import pytest

from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.time_left import duration, time_left


def test_time_left_from_runs_of_the_method_or_by_cost():
    ce, joint, decoupling = (Cell("mnist", 50, m, 0) for m in ("CE", "Joint", "Decoupling"))
    assert time_left({ce: 100}, {}, [ce, joint], 1) == pytest.approx(100 + 320)
    took = {ce: 100, joint: 200}
    assert time_left(took, {}, [ce, joint], 1) == pytest.approx(100 + 200)
    assert time_left(took, {}, [decoupling], 1) == pytest.approx(2 * 300 / 4.2)
    assert time_left(took, {ce: 500}, [], 1) == 0


def test_jobs_share_the_cells_but_no_cell_is_divided():
    ce, joint = (Cell("mnist", 50, m, 0) for m in ("CE", "Joint"))
    took = {ce: 100, joint: 200}
    assert time_left(took, {joint: 150}, [ce] * 4, 3) == pytest.approx(450 / 3)
    assert time_left(took, {}, [joint], 3) == pytest.approx(200)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59.4, "59 s"), (59.6, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min"), (2e5, "2 d 7 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
