"""The user's data, findings and classifiers in files."""
