"""File formats that data sets come in, each read within bounds and without running code."""
