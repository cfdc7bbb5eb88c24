"""Results as they are read from a table's folder."""

import pytest
from experiments.reproduce.reproduce_cases import TWO
from experiments.reproduce.reproduce_cases import table as table
from experiments.reproduce.table_cases import result, small_table

from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.results import OtherSettingsError, Results, finished_result


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"test_accuracy": null}', "must hold the result of a run, with a number test_accuracy"),
        ('{"test_accuracy": NaN}', "must hold the result of a run, with a number test_accuracy"),
        ("{", "is damaged: it is not JSON (Expecting property name"),
        ("[" * 100_000, "is damaged: it is not JSON (maximum recursion depth"),
    ],
)
def test_a_broken_result_is_left_out_of_the_table(table, text, problem):
    table.run(*TWO)
    path = Cell("fashion_mnist", 50, "CE", 0).folder(table.out) / "result.json"
    path.write_text(text)
    _, output, _ = table.run("--report-only")
    first = output.splitlines()[0]
    assert first.startswith(f"{path} {problem}")
    assert first.endswith("; left out.")
    assert "**71.00** (51.42 ± 0.66)" in output


def test_a_result_of_an_unknown_method_is_left_out(table):
    table.run(*TWO)
    folder = table.out / "fashion_mnist" / "50"
    (folder / "CE").rename(folder / "Removed")
    code, output, _ = table.run("--report-only")
    assert code == 1
    path = folder / "Removed" / "0" / "result.json"
    assert f"{path} is the result of Removed, which is not a method; left out.\n" in output


def test_a_cell_is_finished_if_its_settings_are_the_same(tmp_path):
    folder = tmp_path / "mnist" / "50" / "CE" / "0"
    folder.mkdir(parents=True)
    assert finished_result(folder, {"epochs": 3}) is None
    (folder / "cell.toml").write_text("epochs = 3\n")
    assert finished_result(folder, {"epochs": 3}) is None
    (folder / "result.json").write_text('{"test_accuracy": 50.0, "test_accuracy_last": 9}')
    assert finished_result(folder, {"epochs": 3, "threads": 2}).values["test_accuracy"] == 50
    with pytest.raises(OtherSettingsError, match=r"0 was run with epochs = 3 \(now 4\)\.$"):
        finished_result(folder, {"epochs": 4})


def test_results_keep_the_order_of_the_tables():
    results = small_table()
    shuffled = Results(reversed(results))
    assert shuffled.distinct("method") == ["CE", "Forward-band", "PTD-R-V"]
    assert shuffled.distinct("rate") == [10, 50]
    assert Results([result("clothing1m", None, "CE", 0, 1.0)]).distinct("rate") == [None]
    assert shuffled.where(method="CE", rate=50).summary("test_accuracy").mean == 51
    assert shuffled.summary("realised_rate").mean == pytest.approx((0.128 + 0.49 + 0.51) / 3)
    assert shuffled.summary("seconds").count == 0
