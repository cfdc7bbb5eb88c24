"""Judges labels by predicted probabilities or embeddings, without training a network."""
