"""The operators: losses and posteriors through T(x), and problems on the simplex."""
