"""The experiments of the paper: data sets, runs, comparisons and tables."""
