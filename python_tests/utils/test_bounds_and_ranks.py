"""Limits of lines to the byte, and sums over ranks."""

import pytest
import torch

from ptd_ext.utils import distributed
from ptd_ext.utils.bounded_files import read_lines


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
