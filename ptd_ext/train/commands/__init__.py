"""The subcommands of `ptd-ext` that train."""
