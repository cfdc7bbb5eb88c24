"""Random numbers of tests and their order: the same in every run, others with --random-seed."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from random_numbers import new_generator, seed_global_generators

AT_IMPORT = torch.rand(3)


def drawn():
    return [*torch.rand(2).tolist(), *np.random.rand(2), random.random()]


@pytest.fixture(scope="module")
def shared():
    return drawn()


def test_a_test_is_seeded_by_its_name(request, shared):
    found = drawn()
    seed_global_generators("test", request.node.nodeid)
    assert found == drawn()
    seed_global_generators("test", "another")
    assert found != drawn()


@pytest.mark.parametrize("number", range(2))
def test_fixtures_and_modules_are_seeded_too(request, shared, number):
    path = request.node.nodeid.split("::")[0]
    seed_global_generators("fixture", path, "shared", 0)
    assert shared == drawn()
    seed_global_generators("import", path)
    assert torch.equal(torch.rand(3), AT_IMPORT)


PRINTS = """
import pytest
import torch
from random_numbers import new_generator


@pytest.mark.parametrize("number", range(9))
def test(number):
    print("drew", number, torch.rand(()).item(), torch.rand((), generator=new_generator()).item())
"""


def run(folder, *options):
    """The tests of PRINTS in their order, and what each of them drew."""
    test = folder / "test_prints.py"
    test.write_text(PRINTS)
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options]
    command += [f"--rootdir={folder}", "-c", root / "pyproject.toml", f"--confcutdir={root}"]
    command += ["-p", "conftest", "-o", f"pythonpath={root / 'python_tests'}", test]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("drew ")[1].split() for line in done.stdout.splitlines() if "drew" in line]
    return [int(number) for number, *_ in lines], {number: rest for number, *rest in lines}


@pytest.mark.slow  # starts pytest three times
def test_another_seed_is_another_order_with_other_numbers(tmp_path):
    order, numbers = run(tmp_path)
    assert order == list(range(9))
    other_order, other_numbers = run(tmp_path, "--random-seed=3")
    assert sorted(other_order) == order != other_order
    for number, (own, of_generator) in numbers.items():
        assert other_numbers[number][0] != own
        assert other_numbers[number][1] != of_generator
    assert run(tmp_path, "--random-seed=3") == (other_order, other_numbers)


def test_a_generator_repeats():
    first, second = (torch.rand(3, generator=new_generator(4)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, torch.rand(3, generator=new_generator(5)))
