"""Reports on an installation: what was built, what runs, and whether it is right."""
