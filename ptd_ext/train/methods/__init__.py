"""The methods: each is a list of stages, and one entry of :mod:`ptd_ext.train.methods.registry`."""
