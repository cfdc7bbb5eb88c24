"""Trained networks with their T(x), which predict and judge rows."""
