"""The build backend: scikit-build-core, and two additions.

* It chooses the torch to build against. Under isolation it uses the installed one, so that no
  second torch is downloaded; only if there is none does the build require one, the tested version
  in constraints.txt.
* It reports missing requirements in one error message, before anything is downloaded or compiled.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import ptd_ext_probe as probe
from scikit_build_core import build as backend
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"

Settings = Mapping[str, list[str] | str] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return scikit-build-core's requirements and, if none is installed yet, torch."""
    return backend.get_requires_for_build_wheel(config_settings) + required_torch(config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Return the same for an editable install."""
    return backend.get_requires_for_build_editable(config_settings) + required_torch(
        config_settings
    )


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """Check before dependencies are fetched: without isolation this hook runs first."""
    check(config_settings)
    return backend.prepare_metadata_for_build_wheel(directory, config_settings)


def prepare_metadata_for_build_editable(directory: str, config_settings: Settings = None) -> str:
    """Check likewise for an editable install."""
    check(config_settings)
    return backend.prepare_metadata_for_build_editable(directory, config_settings)


def build_wheel(
    directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel."""
    check(config_settings)
    return backend.build_wheel(directory, config_settings, metadata_directory)


def build_editable(
    directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel."""
    check(config_settings)
    return backend.build_editable(directory, config_settings, metadata_directory)


def required_torch(config_settings: Settings) -> list[str]:
    """Return the torch to add to the build environment, if the target environment has none."""
    torch = next((torch for torch in probe.installed_torches() if torch.is_usable), None)
    check_toolchain(config_settings, torch)
    return [] if torch else [tested_torch(CONSTRAINTS.read_text())]


def tested_torch(constraints: str) -> str:
    """Return the line of constraints.txt that pins torch."""
    return re.search(r"^torch==[^\s;#]+", constraints, re.MULTILINE).group()


def check(config_settings: Settings) -> None:
    """Exit with an error message if the build cannot work."""
    try:
        torch = probe.find_torch()
    except probe.BuildError as error:
        sys.exit(str(error))
    check_toolchain(config_settings, torch)


def check_toolchain(config_settings: Settings, torch: probe.Torch | None) -> None:
    """Exit with an error message if a compiler is missing or lacks a requested feature."""
    try:
        probe.check_compiler()
        choice = option("PTD_EXT_CUDA", config_settings)
        probe.choose_toolkit(choice, option("PTD_EXT_CUDA_ARCHS", config_settings), torch)
    except probe.BuildError as error:
        sys.exit(str(error))


def option(name: str, config_settings: Settings) -> str:
    """Return the value of `-Ccmake.define.NAME=value`, or else of the environment, as in CMake."""
    given = (config_settings or {}).get(f"cmake.define.{name}")
    return given if isinstance(given, str) else os.environ.get(name, "")
