"""Readers of file formats, each within bounds of memory and time and without running code."""
