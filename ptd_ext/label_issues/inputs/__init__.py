"""Rows and labels of many kinds as tensors and class indices, and rows as pictures or text."""
