"""Simplex semi-NMF: features X ≈ hW with the rows of h on the simplex."""
