"""Which labels of one's own data are wrong, and what they should be."""

from ptd_ext.label_issues.find import find_label_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.rates import Interval, NoiseRate

__all__ = ["Interval", "LabelIssues", "NoiseRate", "find_label_issues"]
