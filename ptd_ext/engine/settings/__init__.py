"""Settings of training, and schedules."""
