"""A stage of training: its interface, and all that it needs and leaves to later stages."""
