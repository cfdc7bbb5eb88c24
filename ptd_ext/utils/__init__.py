"""Files, arguments, devices, processes and threads: helpers that know nothing of label noise."""
