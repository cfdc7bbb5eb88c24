"""Small results to make tables of."""

from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.results import Result, Results


def result(data, rate, method, seed, percent, *, parts=None, error=None, config=None, **values):
    cell = Cell(data, rate, method, seed, parts)
    common = {"preset": "fast", "version": "0.1.0", "torch": "2.13", "network": "lenet5"}
    own = {"test_accuracy": percent, "approximation_error": error, "epochs": 10}
    return Result(cell, {**common, **own, **values}, cell.config(config or {}))


def small_table():
    return Results(
        [
            result("fashion_mnist", 10, "CE", 0, 88.0, realised_rate=0.128),
            result("fashion_mnist", 50, "CE", 0, 50.0, realised_rate=0.49),
            result("fashion_mnist", 50, "CE", 1, 52.0, realised_rate=0.51),
            result("fashion_mnist", 50, "Forward-band", 0, 73.0),
            result("fashion_mnist", 50, "Forward-band", 1, 75.0),
            result("fashion_mnist", 50, "PTD-R-V", 0, 70.0, error=0.5),
            result("fashion_mnist", 50, "PTD-R-V", 1, 74.0, error=0.25),
        ]
    )


def small_ablation():
    return Results(
        [
            result("cifar10", 50, "Forward-band", 0, 44.0, error=0.7),
            result("cifar10", 50, "Forward-band", 1, 46.0, error=0.9),
            result("cifar10", 50, "PTD-F", 0, 50.0, parts=10, error=0.75),
            result("cifar10", 50, "PTD-F", 1, 51.0, parts=10, error=0.65),
            result("cifar10", 50, "PTD-F", 0, 40.0, parts=11, error=0.9),
            result("cifar10", 50, "PTD-F", 1, 41.0, parts=11),
        ]
    )
