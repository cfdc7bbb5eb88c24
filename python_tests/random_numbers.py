"""Random numbers of tests, others with every `pytest --random-seed N`."""

from __future__ import annotations

import hashlib
import os
import random

import numpy as np
import torch

# N, which conftest.py sets; processes that a test starts inherit it.
SESSION_SEED = int(os.environ.get("PTD_EXT_TEST_SEED", "0"))


def new_generator(seed: int = 0) -> torch.Generator:
    """A generator for inputs on which a test holds whatever the numbers.

    Tests with a bound on chance, such as an accuracy, or on rounding errors that many iterations
    amplify, use `torch.Generator().manual_seed` instead.
    """
    return torch.Generator().manual_seed(seed + 1_000_003 * SESSION_SEED)


def seed_from(*key: object) -> int:
    """A seed of 32 bits that depends on `key` and on N."""
    text = repr((SESSION_SEED, *map(str, key)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def seed_global_generators(*key: object) -> None:
    seed = seed_from(*key)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
