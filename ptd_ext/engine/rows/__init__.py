"""Rows and labels of many kinds as tensors and class indices."""
