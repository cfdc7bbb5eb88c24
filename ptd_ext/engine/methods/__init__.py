"""Methods: each is a list of stages, and each stage one loss with its schedule.

To add a method, write its stages as subclasses of :class:`ptd_ext.engine.stage.stage.Stage` and
add an entry to `registry.METHODS`. Nothing else changes: listings, help, docs, presets, checks and
`ptd-ext reproduce` read the entry. Stages import from `engine.stage` and from other methods,
never from `engine.training`; the trainer imports them.
"""
