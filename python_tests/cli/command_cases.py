"""Data for tests of `ptd-ext labels`, and how it is called in them."""

import numpy as np
import pytest

from ptd_ext.cli import main

QUICK = ["--network", "linear", "--method", "EM-F", "--epochs", "2", "--no-progress"]
TRUSTED = ["--epochs", "100"]  # enough of them for findings that can be trusted


def two_clouds(rows=80):
    """A data frame of two clouds of points; every eighth label is wrong."""
    import pandas

    generator = np.random.default_rng(0)
    kinds = np.repeat(["left", "right"], rows // 2)
    frame = pandas.DataFrame(generator.normal(size=(rows, 2)), columns=["width", "height"])
    frame["width"] += np.where(kinds == "left", -4, 4)
    frame["side"] = kinds
    frame.loc[::8, "side"] = frame.loc[::8, "side"].map({"left": "right", "right": "left"})
    return frame


def labels(data, *arguments):
    """Run the command with quick settings."""
    main(["labels", str(data), *QUICK, *map(str, arguments)])


def refused(capsys, data, *arguments):
    """The sentence that the command ends with."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        labels(data, *arguments)
    said = capsys.readouterr().err
    assert said.startswith("ptd-ext labels: ")
    assert said.endswith((".\n", "?\n"))
    return said
