"""What reviewers decide about given labels, and what follows from it."""
