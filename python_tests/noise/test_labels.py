"""LabelNoise: its rates, and the file that holds it."""

from dataclasses import replace

import pytest
import torch
from random_numbers import new_generator

import ptd_ext

CLASSES = 5
LABELS = torch.arange(60) % CLASSES


@pytest.fixture(scope="module")
def noise():
    features = torch.randn(60, 8, generator=new_generator(0))
    return ptd_ext.instance_dependent_noise(features, LABELS, 0.4, random_state=0)


def test_rates(noise):
    assert noise.n_classes == CLASSES
    wrong = (noise.noisy_labels != LABELS).double().mean().item()
    assert noise.realised_rate == pytest.approx(wrong)
    kept = noise.rows[torch.arange(60), LABELS].double()
    assert noise.expected_rate == pytest.approx(1 - kept.mean().item())


def test_confusion():
    made = ptd_ext.noise.pairwise_noise(LABELS, 0.3, random_state=0)
    confusion = made.confusion
    assert confusion.shape == (CLASSES, CLASSES)
    assert torch.equal(confusion.sum(1), LABELS.bincount())
    assert 1 - confusion.trace().item() / len(LABELS) == pytest.approx(made.realised_rate)
    assert confusion[3, 4] == ((LABELS == 3) & (made.noisy_labels == 4)).sum()


def test_noise_comes_back(noise, tmp_path):
    path = tmp_path / "noise.safetensors"
    noise.save(str(path))
    loaded = ptd_ext.noise.LabelNoise.load(path)
    for name in ("noisy_labels", "labels", "rows", "ids"):
        assert torch.equal(getattr(loaded, name), getattr(noise, name))
    assert loaded.settings == noise.settings
    assert loaded.kind == "instance"
    assert loaded.realised_rate == noise.realised_rate


def test_contents_that_do_not_fit(noise, tmp_path):

    path = tmp_path / "noise"
    for changed, message in (
        (replace(noise, labels=LABELS + 3), "labels must be from 0 to 4; got 7"),
        (replace(noise, labels=LABELS[:9]), r"labels must be \[60\]; got \[9\]"),
        (replace(noise, ids=LABELS), "ids must be distinct"),
        (replace(noise, rows=noise.rows[0]), r"rows must be \[N, C\]; got \[5\]"),
        (
            replace(noise, rows=noise.rows * float("nan")),
            r"rows must be finite; rows\[0, 0\] is nan",
        ),
        (
            replace(noise, rows=noise.rows * 1.01),
            "rows must be probabilities; row 0 has the sum 1.01",
        ),
        (replace(noise, rows=noise.rows * 3 - 0.4), "rows must be probabilities"),
        (replace(noise, rows=noise.rows.long()), "rows must be floating-point"),
        (replace(noise, labels=LABELS > 2), "labels must be integers"),
        (replace(noise, kind=3), "its header must give the kind of noise"),
    ):
        changed.save(path)
        with pytest.raises(ValueError, match=f"holds no usable label noise: {message}"):
            ptd_ext.noise.LabelNoise.load(path)


def test_labels_of_few_bits_come_back_as_int64(noise, tmp_path):

    replace(noise, labels=noise.labels.to(torch.uint8)).save(tmp_path / "noise")
    loaded = ptd_ext.noise.LabelNoise.load(tmp_path / "noise")
    assert loaded.labels.dtype == torch.int64
    assert torch.equal(loaded.confusion, noise.confusion)
