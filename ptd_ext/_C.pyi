from typing import Any

def build_info() -> dict[str, Any]:
    """The version, and the versions, flags and kernels that the extension was built with."""

def cpu_isa() -> str: ...
