"""Finds wrong labels in the user's own data, and suggests the right ones."""

from ptd_ext.label_issues.rates import Interval, NoiseRate

__all__ = ["Interval", "NoiseRate"]
