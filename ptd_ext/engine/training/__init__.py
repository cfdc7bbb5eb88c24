"""The training engine: trainer, train step, model selection, checkpoints."""
