"""Finds wrong labels in the user's own data, and suggests the right ones."""

from ptd_ext.label_issues.find import find_label_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.rates import Interval, NoiseRate

__all__ = ["Interval", "LabelIssues", "NoiseRate", "find_label_issues"]
