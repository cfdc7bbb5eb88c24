"""Settings: their fields, presets, flags and TOML files."""
