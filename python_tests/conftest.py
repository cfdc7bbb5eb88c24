"""The tests run against the installed package, whichever way pytest is started."""

import contextlib
import hashlib
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# `python -m pytest` puts the working directory first, where the source folder ptd_ext/ without its
# compiled modules would hide the installed package.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]

# torch.compile remembers graphs from run to run, by the names of their operators: one that was
# traced with other schemas would be called with the wrong arguments.
_SCHEMAS = hashlib.sha256((ROOT / "csrc" / "schema.cpp").read_bytes()).hexdigest()[:12]
_COMPILED = Path(tempfile.gettempdir()) / f"torchinductor_ptd_ext_{_SCHEMAS}"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_COMPILED))


def pytest_addoption(parser):
    parser.addoption("--messages", type=Path, help="file to add the messages of all errors to")
    parser.addoption(
        "--random-seed",
        type=int,
        default=0,
        help="seed of random inputs and of the order of tests (default: 0, which keeps the order)",
    )


def pytest_configure(config):
    if file := config.getoption("--messages"):
        pytest.raises = _recorded(pytest.raises, file.absolute())
    if find_spec("ptd_ext") is None:
        install = 'pip install -c constraints.txt ".[test]"'
        raise pytest.UsageError(f"ptd_ext is not installed: run `{install}` first.")
    os.environ["PTD_EXT_TEST_SEED"] = str(config.getoption("--random-seed"))


def pytest_report_header(config):
    return f"random seed: {config.getoption('--random-seed')}"


def pytest_collectstart(collector):
    """Seed numbers that a module draws when it is imported."""
    _seed("import", collector.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    """Seed numbers of fixtures that tests share: they must not depend on which test comes first."""
    if fixturedef.scope != "function":
        _seed("fixture", fixturedef.baseid, fixturedef.argname, request.param_index)


@pytest.fixture(autouse=True)
def seeded(request):
    _seed("test", request.node.nodeid)


def _seed(*key):
    from random_numbers import seed_global_generators

    seed_global_generators(*key)


def pytest_collection_modifyitems(config, items):
    """Shuffle modules, and the tests of each: fixtures of modules are set up once all the same."""
    if config.getoption("--random-seed"):
        from random_numbers import seed_from

        items.sort(key=lambda item: (seed_from(item.nodeid.split("::")[0]), seed_from(item.nodeid)))


def _recorded(raises, file):
    """`pytest.raises`, with a line in the file for every error that it catches."""

    @contextlib.contextmanager
    def recorded(*arguments, **options):
        with raises(*arguments, **options) as caught:
            yield caught
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{caught.type.__name__}: {' '.join(str(caught.value).split())}\n")

    return recorded


@pytest.fixture(autouse=True)
def one_thread():
    """Small inputs gain nothing from threads, and other work on the machine can make them wait.

    Tests of threading set their own number.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
