"""Finds wrong labels in the user's own data, and suggests the right ones."""

from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.review.apply import CleanedLabels, undo
from ptd_ext.label_issues.review.audit import Audit
from ptd_ext.label_issues.review.decisions import Answer, Decision, Decisions
from ptd_ext.label_issues.review.evaluation import Evaluation
from ptd_ext.label_issues.review.exchange.hugging_face import add_columns
from ptd_ext.label_issues.review.read import read_decisions

__all__ = [
    "Answer",
    "Audit",
    "CleanedLabels",
    "Decision",
    "Decisions",
    "Evaluation",
    "Interval",
    "NoiseRate",
    "add_columns",
    "read_decisions",
    "undo",
]
