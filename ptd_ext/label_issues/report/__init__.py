"""The report: one HTML file that shows which labels are probably wrong."""

from ptd_ext.label_issues.report.contents import Interval, ReportContents, Sample
from ptd_ext.label_issues.report.page import write_report

__all__ = ["Interval", "ReportContents", "Sample", "write_report"]
