"""A training run in a folder: its settings, results and findings, and how it is loaded."""
