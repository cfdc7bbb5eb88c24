"""Methods: each is a list of stages, and each stage one loss with its schedule.

To add a method, write its stages as subclasses of :class:`ptd_ext.engine.stage.stage.Stage` and
add an entry to `registry.METHODS`. Nothing else changes: listings, help, docs, presets, checks and
`ptd-ext reproduce` read the entry. Stages import `base`, other stages, and of `engine.training`
only what has no stages (`state`, `optim`); the trainer imports them.
"""
