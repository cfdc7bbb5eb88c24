"""Limits of lines to the byte, and sums over ranks."""

import pytest
import torch

from ptd_ext.utils import distributed
from ptd_ext.utils.bounded_files import read_bytes, read_lines, shortened


def test_a_line_may_have_the_limit_and_no_more(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"1234567\n1\n12345678")
    assert list(read_lines(path, line_limit=8)) == [
        (1, b"1234567\n"),
        (2, b"1\n"),
        (3, b"12345678"),
    ]
    for text in (b"1\n12345678\n", b"1\n123456789", b"1\n" + b"1" * 100):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="line 2, must have at most 8 bytes; it has more"):
            list(read_lines(path, line_limit=8))


def test_gradients_over_ranks(monkeypatch):
    """Another rank with gradients three times as large."""
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda flat, **_: flat.mul_(4))
    ranks = distributed.Ranks(0, 2)
    shapes = [(2, 3), (4,), ()]
    for call, factor in ((ranks.add_gradients, 4), (ranks.average_gradients, 2)):
        parameters = [torch.zeros(shape, requires_grad=True) for shape in shapes]
        gradients = [torch.randn(shape) for shape in shapes]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        call([*parameters, torch.zeros(2, requires_grad=True)])  # the last one has none
        for parameter, gradient in zip(parameters, gradients, strict=True):
            torch.testing.assert_close(parameter.grad, factor * gradient)


def test_a_text_from_a_file_is_quoted_up_to_its_limit():
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 81) == "a" * 80 + "…"
    assert (
        shortened("a\nb\x1b[31m", 9) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[31m"
    )
    assert shortened(["x"], 3) == "['x…"


def test_a_file_of_exactly_the_limit_is_read(tmp_path):
    (tmp_path / "f").write_bytes(b"123")
    assert read_bytes(tmp_path / "f", 3) == b"123"
    with pytest.raises(ValueError, match="f declares 3 bytes, more than the 2"):
        read_bytes(tmp_path / "f", 2)
