"""The training engine: experiment, trainer, train step, model selection, checkpoints."""
