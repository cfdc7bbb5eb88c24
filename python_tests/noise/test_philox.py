"""The counter-based generator: published answers, quality, functions of the same bits anywhere."""

import math

import pytest
import torch
from cases import each_device
from scipy import stats

from ptd_ext.noise import _philox as philox

# Known answers of Philox's authors for philox4x32-10: counter, key, answer.
KNOWN = [
    ("00000000 " * 4, "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def numbers(text):
    return [int(word, 16) for word in text.split()]


@each_device
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer, device):
    low, high = numbers(key)
    found = philox.words(high << 32 | low, *torch.tensor(numbers(counter), device=device))
    assert [word.item() for word in found] == numbers(answer)


def test_counters_broadcast():
    rows, columns = torch.arange(5)[:, None], torch.arange(3)
    whole = philox.words(7, 2, rows, columns, 1)
    assert all(word.shape == (5, 3) for word in whole)
    one = philox.words(7, 2, torch.tensor(4), 1, 1)
    assert [word[4, 1].item() for word in whole] == [word.item() for word in one]


def bits(words):
    return (words[:, None] >> torch.arange(32)) & 1


def test_every_bit_of_the_counter_changes_half_the_answer():
    counters = torch.arange(2000)
    before = torch.cat([bits(w) for w in philox.words(3, counters, 0, 0, 0)], 1)
    for place in (0, 1, 17, 31):
        for word in range(4):
            changed = [counters, 0, 0, 0]
            changed[word] = (counters if word == 0 else torch.zeros_like(counters)) ^ (1 << place)
            after = torch.cat([bits(w) for w in philox.words(3, *changed)], 1)
            share = (before != after).double().mean(0)
            assert (share - 0.5).abs().max() < 5 * 0.5 / math.sqrt(2000)


def test_neighbouring_ids_and_seeds_are_independent():
    ids = torch.arange(100_000)
    a = philox.uniforms(*philox.words(11, ids, 0, 0, 1)[:2])
    b = philox.uniforms(*philox.words(12, ids, 0, 0, 1)[:2])
    c = philox.uniforms(*philox.words(11, ids, 0, 0, 2)[:2])
    d = philox.uniforms(*philox.words(11, ids, 0, 0, 1)[2:])
    pairs = [(a[1:], a[:-1]), (a, b), (a, c), (a, d)]
    for first, second in pairs:
        # Both coordinates in 16 cells each: 256 equally likely pairs.
        cells = (first * 16).long() * 16 + (second * 16).long()
        assert stats.chisquare(cells.bincount(minlength=256)).pvalue > 1e-3


def test_distributions():
    words = philox.words(5, torch.arange(100_000), 0, 0, 0)
    uniform = philox.uniforms(*words[:2])
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform.numpy(), "uniform").pvalue > 1e-3
    first, second = philox.normals(*words[:2])
    for normal in (first, second):
        assert stats.kstest(normal.numpy(), "norm").pvalue > 1e-3
        assert (normal**4).mean().item() == pytest.approx(3, abs=0.15)
    assert stats.pearsonr(first.numpy(), second.numpy()).pvalue > 1e-3
    assert stats.pearsonr(first.square().numpy(), second.square().numpy()).pvalue > 1e-3


def test_normals_are_bounded():
    ends = torch.tensor([0, 0xFFFFFFFF])
    largest = torch.stack(philox.normals(ends, torch.zeros_like(ends)))
    assert largest.abs().max() < 6.77
    assert largest.isfinite().all()
