"""The demonstration that the README runs first."""

import pytest

pytest.importorskip("sklearn")

from ptd_ext import cli, demo


def test_the_loss_helps(capsys):
    """Shortened; the order of the methods is what the demonstration is about."""
    images, labels = demo.load_digits()
    options = type("Options", (), {"noise": 0.45, "parts": 5, "epochs": 25, "seeds": 1})
    results = demo.run(images, labels, options)
    assert results["forward_loss, T(x)"][0] > results["cross entropy"][0] + 5
    assert "45% of the training labels" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--noise", "1.5"], ["--parts", "0"]])
def test_bad_options(arguments, capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", *arguments])
    assert arguments[0] in capsys.readouterr().err
