"""The entry of a setting: its bounds, its help, its errors."""

import dataclasses
import math

import pytest

from ptd_ext.engine.settings.setting import Setting, setting


def entry(name="share", **options):
    return Setting("method", 0.5, "a share", name=name, **options)


@pytest.mark.parametrize(
    ("options", "right", "wrong", "bounds"),
    [
        ({"minimum": 0}, [0, 5], [-1], "at least 0"),
        ({"above": 0}, [1e-9], [0, -1], "greater than 0"),
        ({"minimum": 1, "maximum": 3}, [1, 3], [0, 4], "between 1 and 3"),
        ({"minimum": 0, "below": 1}, [0, 0.9], [1], "at least 0 and less than 1"),
        ({"above": 0, "maximum": 1}, [1], [0, 1.1], "greater than 0 and at most 1"),
        ({"minimum": 0, "otherwise": -1}, [-1, 0], [-0.5], "at least 0, or -1"),
        ({}, [-5, 5], [], ""),
    ],
)
def test_bounds(options, right, wrong, bounds):
    share = entry(**options)
    assert share.bounds == bounds
    for value in right:
        share.check(value)
    for value in wrong:
        with pytest.raises(ValueError, match=f"share must be {bounds}; got {value}"):
            share.check(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match="share must be a finite number"):
        entry().check(value)


def test_choices():
    entry(choices=("a", "b")).check("b")
    with pytest.raises(ValueError, match="share must be one of a, b; got 'c'"):
        entry(choices=("a", "b")).check("c")


def test_a_rule_checks_what_bounds_cannot():
    def even(value):
        if value % 2:
            raise ValueError(f"share must be even; got {value}.")

    entry(rule=even).check(2)
    with pytest.raises(ValueError, match="share must be even; got 3"):
        entry(rule=even).check(3)


def test_help_names_the_entries_of_a_registry_as_they_are_now():
    names = ["one"]
    listed = entry(names=lambda: names)
    assert listed.help == "a share: one"
    names.append("two")
    assert listed.help == "a share: one, two"
    assert entry().help == "a share"


def test_flag_and_items():
    assert entry("max_parts").flag == "--max-parts"
    assert entry(type=tuple[int, ...]).item_type is int
    assert entry(type=tuple[float, ...]).item_type is float
    assert entry(type=float).item_type is None


def test_a_setting_is_a_field_with_its_entry():
    found = setting("run", 3, "a count", ("x",), minimum=1)
    assert isinstance(found, dataclasses.Field)
    assert found.default == 3
    assert found.metadata["entry"] == Setting("run", 3, "a count", ("x",), minimum=1)
