"""Files, ids, processes and progress: nothing here knows about label noise."""
