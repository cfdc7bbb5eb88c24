"""Rows to review for other labelling tools, and their answers."""
