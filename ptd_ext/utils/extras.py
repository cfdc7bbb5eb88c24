"""Error messages that name the extra which installs an optional package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

OPTIONAL = {
    "sklearn": "scikit-learn",
    "scipy": "SciPy",
    "pandas": "pandas",
    "PIL": "Pillow",
    "matplotlib": "Matplotlib",
    "tqdm": "tqdm",
    "jinja2": "Jinja",
}
"""The modules that the extra `all` installs, with the names of their projects."""


@contextmanager
def optional_packages(what: str) -> Iterator[None]:
    """Name the extra in the error for an optional package that is not installed.

    Args:
        what: what needs the package: the function or command that the user called.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        project = OPTIONAL.get((error.name or "").partition(".")[0])
        if project is None or "ptd_ext[" in str(error):
            raise
        raise ModuleNotFoundError(
            f'{what} needs {project}: pip install "ptd_ext[all]".', name=error.name
        ) from None
