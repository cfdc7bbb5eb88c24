"""Training with noisy labels: data sets, networks, methods and one driver for them all."""
