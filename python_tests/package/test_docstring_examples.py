"""The examples in the docstrings of public names run and print what they show."""

import doctest
import importlib
import inspect

import numpy as np
import pytest
import torch

import ptd_ext

pytest.importorskip("sklearn")
pyplot = pytest.importorskip("matplotlib.pyplot")

PACKAGES = ["", "noise", "ops", "plot", "transition"]
# They need a run or its findings, which their pages show. `build_info` is compiled.
WITHOUT = {"TrainedRun", "plot_noise_rates", "build_info"}


def documented():
    """Public functions and the classes at the top, whose results need no example of their own."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"ptd_ext.{package}".rstrip("."))
        for name in module.__all__:
            each = getattr(module, name)
            if inspect.isroutine(each) or (inspect.isclass(each) and not package):
                found.setdefault(name, each)
    return found


DOCUMENTED = documented()


def test_every_public_function_has_an_example():
    missing = {name for name, each in DOCUMENTED.items() if ">>> " not in (each.__doc__ or "")}
    assert missing == WITHOUT


@pytest.mark.parametrize("name", sorted(set(DOCUMENTED) - WITHOUT))
def test_example(name):
    pyplot.switch_backend("agg")
    names = {"np": np, "ptd_ext": ptd_ext, "torch": torch}
    text = inspect.getdoc(DOCUMENTED[name])
    examples = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    assert examples.examples
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=report.append)
    pyplot.close("all")
    assert report == [], "".join(report)
