"""Learned parts: what they find, when they keep the start, files, new samples, bad arguments."""

import numpy as np
import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition.learned_parts import _covariance_directions, _held_out, _principal


def varying_noise(samples=6000, classes=3, seed=0):
    """Labels that go up where the first feature is positive, and down elsewhere, 40 % of them."""
    g = torch.Generator().manual_seed(seed)
    clean = torch.randint(classes, (samples,), generator=g)
    features = torch.randn(samples, 6, generator=g) + 5
    up = features[:, 0] > 5
    wrong = torch.rand(samples, generator=g) < 0.4
    noisy = torch.where(wrong, (clean + torch.where(up, 1, classes - 1)) % classes, clean)
    posterior = 0.94 * torch.nn.functional.one_hot(clean, classes) + 0.02
    average = torch.full((classes, classes), 0.2).fill_diagonal_(0.6)
    return features, posterior, noisy, average, up


def test_finds_noise_that_depends_on_the_sample():
    features, posterior, noisy, average, up = varying_noise()
    fit = ptd_ext.fit_learned_parts(features, posterior, noisy, transition=average, n_parts=4)
    assert not fit.kept_start
    assert fit.gain > 5 * fit.gain_error > 0
    assert abs(fit.noise_rate - 0.4) < 0.05
    matrix = fit.part_transition().transition(features)
    torch.testing.assert_close(matrix.sum(-1), torch.ones(len(features), 3))
    assert matrix[up, 0, 1].mean() > 0.3
    assert matrix[~up, 0, 1].mean() < 0.1
    assert "vary by" in str(fit.summary())


def test_the_epoch_that_gains_most_is_returned():
    """A large step gains at first and loses later: the gain is that of the parts returned."""
    features, posterior, noisy, average, _ = varying_noise(1500)
    mask = torch.arange(1500) % 5 == 0
    fit = ptd_ext.fit_learned_parts(
        features, posterior, noisy, transition=average, validation_mask=mask, lr=0.5, min_gain=0
    )
    assert not fit.kept_start
    logits, labels = posterior[mask].log(), noisy[mask]
    before, after = (
        ptd_ext.forward_loss(logits, labels, weights, parts)
        for weights, parts in ((None, average), (fit.weights[mask], fit.parts))
    )
    assert fit.gain == pytest.approx((before - after).item(), rel=1e-3)


def test_keeps_the_start_where_nothing_varies():
    g = torch.Generator().manual_seed(1)
    features, posterior, _, average, _ = varying_noise(1500)
    clean = posterior.argmax(1)
    noisy = torch.multinomial(average[clean], 1, generator=g)[:, 0]
    fit = ptd_ext.fit_learned_parts(
        features, posterior, noisy, transition=average, min_gain=2.0, n_components=4
    )
    assert fit.kept_start
    assert torch.equal(fit.parts, average[None])
    assert torch.equal(fit.weights, torch.ones(1500, 1))
    assert torch.equal(fit.part_transition().transition(features[:5]), average.expand(5, 3, 3))
    assert "one matrix" in str(fit.summary())


def test_start_is_estimated_and_the_seed_decides():
    features, posterior, noisy, average, _ = varying_noise(3000)
    mask = torch.arange(3000) % 10 == 0
    runs = [
        ptd_ext.fit_learned_parts(features, posterior, noisy, validation_mask=mask, max_epochs=1)
        for _ in range(2)
    ]
    assert torch.equal(runs[0].parts, runs[1].parts)
    fit = ptd_ext.fit_learned_parts(features, posterior, noisy, min_gain=1e9, max_epochs=1)
    assert fit.kept_start
    assert (fit.parts[0] - average).abs().max() < 0.06


def test_saved_parts_give_new_samples_their_weights(tmp_path):
    features, posterior, noisy, average, _ = varying_noise(2000)
    fit = ptd_ext.fit_learned_parts(features, posterior, noisy, transition=average, n_parts=3)
    path = tmp_path / "learned.safetensors"
    fit.part_transition(data="made").save(path)
    learned = ptd_ext.PartTransition.load(path)
    assert learned.about == {"data": "made"}
    assert repr(learned) == "PartTransition(n_parts=3, n_classes=3, n_features=6)"
    torch.testing.assert_close(learned.weights(features), fit.weights)
    new = torch.randn(5, 6) + 5
    weights = learned.to(torch.float64).weights(new.double())
    assert weights.dtype == torch.float64
    torch.testing.assert_close(weights.float(), fit.gate(new))
    loss = ptd_ext.forward_loss(torch.zeros(5, 3), noisy[:5], weights.float(), learned.parts)
    assert loss.isfinite()


@pytest.mark.parametrize("samples", [2, 40])
def test_few_samples_two_classes_and_constant_features(samples):
    labels = torch.arange(samples) % 2
    posterior = torch.full((samples, 2), 0.5)
    fit = ptd_ext.fit_learned_parts(torch.ones(samples, 3), posterior, labels, max_epochs=2)
    assert fit.parts.isfinite().all()
    assert fit.weights.isfinite().all()


FEATURES, POSTERIOR, LABELS = torch.randn(20, 4), torch.full((20, 3), 1 / 3), torch.arange(20) % 3
NAN_ = float("nan")
NAN = FEATURES.clone().fill_diagonal_(torch.nan)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((NAN, POSTERIOR, LABELS), {}, r"features must be finite; features\[0, 0\] is nan"),
        ((FEATURES, POSTERIOR, LABELS + 1), {}, "labels must be from 0 to 2; got 3"),
        ((FEATURES[:9], POSTERIOR, LABELS), {}, "same samples; got 9, 20 and 20"),
        ((FEATURES, POSTERIOR * 2, LABELS), {}, "must be probabilities"),
        ((FEATURES[:1], POSTERIOR[:1], LABELS[:1]), {}, "at least 2 samples"),
        ((FEATURES, POSTERIOR, LABELS), {"n_parts": 0}, "n_parts must be an integer from 1"),
        (
            (FEATURES[:, :0], POSTERIOR, LABELS),
            {},
            r"features must have at least one column; .*0\]",
        ),
        (
            (1e300 * FEATURES.double(), POSTERIOR, LABELS),
            {},
            "features must have a largest",
        ),
        ((1e-40 * FEATURES, POSTERIOR, LABELS), {}, "features must have a largest"),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"n_parts": 1.5},
            "n_parts must be an integer from 1 to 256; got 1.5",
        ),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"n_parts": 10**9},
            "n_parts must be an integer from 1 to 256; got 1000",
        ),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"batch_size": 0},
            "batch_size must be an integer >= 1; got 0",
        ),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"patience": 0},
            "patience must be an integer >= 1; got 0",
        ),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"max_epochs": "3"},
            "max_epochs must be an integer >= 1; got '3'",
        ),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"random_state": 2**70},
            "random_state must be an integer from 0 to",
        ),
        ((FEATURES, POSTERIOR, LABELS), {"gate_penalty": NAN_}, "gate_penalty must be at least 0"),
        ((FEATURES, POSTERIOR, LABELS), {"lr": torch.inf}, "lr must be at least 0 and finite; got"),
        ((FEATURES, POSTERIOR, LABELS), {"min_gain": NAN_}, "min_gain must be at least 0; got nan"),
        (
            (FEATURES, POSTERIOR, LABELS),
            {"validation_mask": LABELS.numpy()},
            "bool mask .*; got torch.int",
        ),
        ((FEATURES, POSTERIOR, LABELS), {"validation_fraction": 1.0}, "between 0 and 1; got 1.0"),
        ((FEATURES, POSTERIOR, LABELS), {"validation_mask": torch.ones(20)}, "bool mask"),
        ((FEATURES, POSTERIOR, LABELS), {"validation_mask": LABELS > 5}, "samples to evaluate on"),
        ((FEATURES, POSTERIOR, LABELS), {"transition": torch.eye(4)}, r"\[3, 3\]"),
        ((FEATURES, POSTERIOR, LABELS), {"transition": torch.ones(3, 3)}, "with sum 1"),
    ],
)
def test_bad_arguments_get_an_error_message(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.fit_learned_parts(*arguments, **options)


@pytest.mark.parametrize("name", ["validation_mask", "transition"])
def test_arguments_that_are_not_numbers(name):
    with pytest.raises(TypeError, match=f"{name} must be a tensor, an array or a list of numbers"):
        ptd_ext.fit_learned_parts(FEATURES, POSTERIOR, LABELS, **{name: "none"})


def test_gate_is_penalised_by_default():
    features, posterior, noisy, average, _ = varying_noise(3000)
    sizes = [
        ptd_ext.fit_learned_parts(
            features, posterior, noisy, transition=average, n_parts=4, max_epochs=9, **penalty
        ).gate.weight.norm()
        for penalty in ({}, {"gate_penalty": 1e-4}, {"gate_penalty": 0.0}, {"gate_penalty": 0.1})
    ]
    assert sizes[0] == sizes[1] != sizes[2]
    assert sizes[3] < sizes[1]


def test_mask_and_numbers_of_numpy():
    features, posterior, noisy, _, _ = varying_noise(200)
    mask = np.arange(200) % 10 == 0
    runs = [
        ptd_ext.fit_learned_parts(features, posterior, noisy, validation_mask=each, n_parts=parts)
        for each, parts in ((torch.from_numpy(mask), 2), (mask, np.int64(2)), (list(mask), 2))
    ]
    assert all(torch.equal(run.parts, runs[0].parts) for run in runs)
    small = ptd_ext.fit_learned_parts(
        features, posterior, noisy, validation_fraction=np.float32(0.1)
    )
    assert small.weights.isfinite().all()


@pytest.mark.parametrize("scale", [1e-29, 1e28])
def test_features_of_an_odd_size_count_like_others(scale):
    features, posterior, noisy, average, _ = varying_noise(3000)
    fits = [
        ptd_ext.fit_learned_parts(x, posterior, noisy, transition=average, n_parts=4, max_epochs=9)
        for x in (features.double(), scale * features.double())
    ]
    assert not fits[0].kept_start
    torch.testing.assert_close(fits[1].weights, fits[0].weights, rtol=0, atol=1e-3)


def test_an_infinite_gain_keeps_the_start():
    """Also with one held-out sample, the gain of which has no error."""
    features, posterior, noisy, _, _ = varying_noise(200)
    only = torch.arange(200) == 3
    runs = [
        ptd_ext.fit_learned_parts(features, posterior, noisy, validation_mask=only, min_gain=least)
        for least in (0.0, torch.inf)
    ]
    assert not runs[0].kept_start
    assert runs[1].kept_start


def test_file_with_half_a_gate_is_rejected(tmp_path):
    from ptd_ext.utils import tensor_files

    path = tmp_path / "half.safetensors"
    tensors = {"parts": torch.eye(3).repeat(2, 1, 1), "gate_bias": torch.zeros(2)}
    tensor_files.write(path, "a part transition", tensors, {})
    with pytest.raises(ValueError, match=r"missing .* arguments: 'weight' and 'centre'"):
        ptd_ext.PartTransition.load(path)


def test_the_start_of_a_class_with_next_to_no_mass_is_a_row_of_probabilities():
    posterior = torch.eye(3)[[0, 0]]
    fit = ptd_ext.fit_learned_parts(
        torch.ones(2, 1),
        posterior,
        torch.zeros(2, dtype=torch.int64),
        max_epochs=1,
        min_gain=torch.inf,
    )
    assert fit.kept_start
    torch.testing.assert_close(fit.parts.sum(-1), torch.ones(1, 3))


def test_principal_directions_of_wide_features():
    """More features than samples: the same directions, without a covariance."""
    features = torch.randn(20, 50, generator=new_generator(0))
    centre, directions = _principal(features, 5)
    values, expected = _covariance_directions(features, centre, 5)
    scale = directions.norm(dim=0)
    torch.testing.assert_close(scale, scale[:1].expand(5))
    torch.testing.assert_close(scale[0], values.mean().rsqrt())
    along = (directions / scale * expected).sum(0).abs()
    torch.testing.assert_close(along, torch.ones_like(along))


@pytest.mark.parametrize(
    ("share", "count"), [(1e-9, 1), (0.1, 2), (0.5, 10), (0.97, 19), (1 - 1e-9, 19)]
)
def test_a_share_leaves_rows_to_fit_and_rows_to_evaluate_on(share, count):
    assert _held_out(share, None, 20, new_generator(0)).sum() == count


def test_verified_labels_correct_the_parts():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 4, generator=generator)
    true = (x[:, 0] > 0).long()
    given = torch.where(torch.rand(2000, generator=generator) < 0.3, 1 - true, true)
    # A network that half believes the given labels finds too little noise.
    probs = (2.0 * torch.eye(2)[true] + 2.0 * torch.eye(2)[given]).softmax(1)
    verified = torch.full((2000,), -1)
    verified[:1000] = true[:1000]
    verified[1000:1010] = -3
    rates = [
        ptd_ext.fit_learned_parts(x, probs, given, verified=codes, n_parts=2).noise_rate
        for codes in (None, verified)
    ]
    assert abs(rates[1] - 0.3) < 0.7 * abs(rates[0] - 0.3)


def test_verified_labels_must_leave_samples():
    x, labels = torch.randn(10, 2, generator=new_generator()), torch.arange(10) % 2
    probs = torch.full((10, 2), 0.5)
    with pytest.raises(ValueError, match="verified must leave samples to fit"):
        ptd_ext.fit_learned_parts(x, probs, labels, verified=torch.full((10,), -3))
