"""Numbers that callers pass: what is accepted, and the message for everything else."""

import math

import numpy as np
import pytest
import torch

from ptd_ext.utils.arguments import (
    check_integer,
    check_nonnegative,
    check_same_index,
    is_complex,
)


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3), torch.tensor(3), True + 2])
def test_integers_of_every_library(value):
    number = check_integer(value, "k")
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, 3.0, "3", None, torch.tensor(3.0), [3]])
def test_what_is_not_a_positive_integer(value):
    with pytest.raises(ValueError, match=r"^k must be an integer >= 1; got ") as caught:
        check_integer(value, "k")
    assert str(caught.value).endswith(f"got {value!r}.")


def test_both_bounds_are_allowed_values():
    assert [check_integer(n, "k", 2, 4) for n in (2, 3, 4)] == [2, 3, 4]
    for outside in (1, 5):
        with pytest.raises(ValueError, match=f"k must be an integer from 2 to 4; got {outside}"):
            check_integer(outside, "k", 2, 4)
    assert check_integer(10**30, "k") == 10**30
    with pytest.raises(ValueError, match="k must be an integer >= 2; got 1"):
        check_integer(1, "k", 2)


@pytest.mark.parametrize("value", [0, 0.0, 1e-300, 2, np.float32(2), torch.tensor(2.0), "2"])
def test_nonnegative_numbers(value):
    number = check_nonnegative(value, "lr")
    assert number == float(value)
    assert type(number) is float


@pytest.mark.parametrize(("value", "shown"), [(-1e-300, "-1e-300"), (math.nan, "nan")])
@pytest.mark.parametrize("finite", [True, False])
def test_negative_numbers_and_nan(value, shown, finite):
    with pytest.raises(ValueError, match=f"lr must be at least 0.*; got {shown}"):
        check_nonnegative(value, "lr", finite=finite)


def test_infinity_where_it_is_allowed():
    assert check_nonnegative(math.inf, "lr", finite=False) == math.inf
    with pytest.raises(ValueError, match="lr must be at least 0 and finite; got inf"):
        check_nonnegative(math.inf, "lr")


@pytest.mark.parametrize("value", [None, "a", [1, 2]])
def test_what_is_not_a_number(value):
    with pytest.raises(ValueError, match="lr must be a number; got "):
        check_nonnegative(value, "lr")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.ones(2), False),
        (np.ones(2, np.complex64), True),
        (np.array([[1, "a"], [None, 2.0]], dtype=object), False),
        (np.array([[1, "a"], [None, 1j]], dtype=object), True),
        (np.array([1, np.complex64(1)], dtype=object), True),
        ([1j], False),  # arrays only
    ],
)
def test_complex_numbers_in_arrays(values, expected):
    assert is_complex(values) is expected


def test_the_same_index_in_another_order_is_rejected():
    pandas = pytest.importorskip("pandas")
    first = pandas.Series([1, 2, 3], index=["a", "b", "c"])
    turned = first.iloc[::-1]
    for other in (first, first.to_frame(), turned.to_numpy(), turned.tolist(), first + 1, None):
        check_same_index(X=first, y=other)
    check_same_index(X=first, y=first.reset_index(drop=True), ids=[3, 2, 1])
    check_same_index(X=first, y=turned.iloc[:2])  # rejected later, for its length
    message = r"ids must have the index of y in the same order.*Give ids\.loc\[y\.index\] to pair"
    with pytest.raises(ValueError, match=message):
        check_same_index(X=[1, 2, 3], y=first, ids=turned.to_frame())
    repeated = pandas.Series([1, 2, 3], index=["a", "a", "b"])
    check_same_index(X=repeated, y=repeated.copy())
    with pytest.raises(ValueError, match=r"in another order\. Give y\.to_numpy\(\) to pair them"):
        check_same_index(X=repeated, y=repeated.iloc[::-1])
