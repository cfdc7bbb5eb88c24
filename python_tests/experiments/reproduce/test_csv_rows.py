"""The rows of table.csv."""

import csv
import io

import pytest
from experiments.reproduce.table_cases import small_ablation, small_table

from ptd_ext.experiments.reproduce.csv_rows import COLUMNS, ablation_csv, accuracy_csv


def test_accuracy_rows():
    rows = list(csv.DictReader(io.StringIO(accuracy_csv(small_table()))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["kind"] for row in rows] == ["cell"] * 7 + ["summary"] * 4
    filled = {name: value for name, value in rows[1].items() if value}
    assert filled == {
        "kind": "cell",
        "data": "fashion_mnist",
        "rate": "50",
        "method": "CE",
        "seed": "0",
        "test_accuracy": "50",
        "realised_rate": "0.49",
        "epochs": "10",
        "preset": "fast",
        "version": "0.1.0",
        "torch": "2.13",
    }
    alone, ce, band, ptd = rows[7:]
    assert (alone["seeds"], alone["test_accuracy_std"], alone["p_value"]) == ("1", "", "")
    assert (ce["seeds"], ce["test_accuracy"], ce["published_accuracy"]) == ("2", "51", "51.42")
    assert float(ce["test_accuracy_std"]) == pytest.approx(2**0.5)
    assert float(ce["p_value"]) == pytest.approx(0.01115, abs=1e-5)
    assert float(band["p_value"]) == pytest.approx(0.46548, abs=1e-5)
    assert band["published_accuracy"] == band["published_p_value"] == ""
    assert (ptd["approximation_error"], ptd["p_value"]) == ("0.375", "")


def test_ablation_rows():
    rows = list(csv.DictReader(io.StringIO(ablation_csv(small_ablation()))))
    band, ten, eleven = rows[6:]
    assert (band["method"], band["n_parts"], band["published_error"]) == ("Forward-band", "", "")
    assert (ten["n_parts"], ten["test_accuracy"], ten["published_accuracy"]) == (
        "10",
        "50.5",
        "46.84",
    )
    assert (eleven["published_error"], eleven["published_error_std"]) == ("0.841", "0.022")
    assert (eleven["approximation_error"], eleven["approximation_error_std"]) == ("0.9", "")
