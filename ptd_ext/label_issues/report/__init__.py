"""The report: one HTML page to review labels that are probably wrong."""

from ptd_ext.label_issues.report.page import write_report
from ptd_ext.label_issues.report.sample import Sample

__all__ = ["Sample", "write_report"]
