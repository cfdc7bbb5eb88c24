"""Noise: its rows and rates, and that nothing but seed, id, x and y decides a label."""

import re
import warnings

import numpy as np
import pytest
import torch
from cases import each_device, peak_bytes
from random_numbers import new_generator
from scipy import stats

import ptd_ext
from ptd_ext.noise import _logits as noise_logits

CLASSES = 7


def samples(count=3000, size=40, classes=CLASSES, seed=0):
    g = new_generator(seed)
    features = torch.randint(256, (count, size), generator=g, dtype=torch.uint8)
    return features, torch.randint(classes, (count,), generator=g)


FEATURES, LABELS = samples()
KINDS = {
    "raw": lambda x, y, **o: ptd_ext.instance_dependent_noise(x, y, 0.4, **o),
    "standardised": lambda x, y, **o: ptd_ext.instance_dependent_noise(
        x, y, 0.4, inputs="standardised", statistics=(127.5, 900.0), **o
    ),
    "symmetric": lambda x, y, **o: ptd_ext.noise.symmetric_noise(y, 0.4, **o),
    "pairwise": lambda x, y, **o: ptd_ext.noise.pairwise_noise(y, 0.4, **o),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())


def assert_equal(ours, theirs, rows=slice(None)):
    assert torch.equal(ours.noisy_labels.cpu(), theirs.noisy_labels[rows])
    assert torch.equal(ours.rows.cpu(), theirs.rows[rows])


@each_device
@each_kind
def test_order_batches_and_device_change_nothing(make, device):
    whole = make(FEATURES, LABELS, random_state=3)
    g = new_generator(1)
    order = torch.randperm(len(LABELS), generator=g)
    x, y = FEATURES[order].to(device), LABELS[order].to(device)
    assert_equal(make(x, y, random_state=3, ids=order), whole, order)
    for part in order.split(401):
        x, y = FEATURES[part].to(device), LABELS[part].to(device)
        assert_equal(make(x, y, random_state=3, ids=part, n_classes=CLASSES), whole, part)
    one = order[:1]
    alone = make(FEATURES[one], LABELS[one], random_state=3, ids=one, n_classes=CLASSES)
    assert_equal(alone, whole, one)


@each_kind
def test_types_threads_and_blocks_change_nothing(make, monkeypatch):
    whole = make(FEATURES, LABELS, random_state=3)
    for x in (FEATURES.double(), FEATURES.float(), FEATURES.numpy(), FEATURES.view(-1, 2, 4, 5)):
        assert_equal(make(x, LABELS.int(), random_state=3), whole)
    torch.set_num_threads(2)
    assert_equal(make(FEATURES, LABELS, random_state=3), whole)
    torch.set_num_threads(1)
    monkeypatch.setattr(noise_logits, "_BLOCK", 100)
    assert_equal(make(FEATURES, LABELS, random_state=3), whole)


def test_real_numbers_of_any_size_do_not_depend_on_the_batch():
    features = torch.randn(500, 301, generator=new_generator(0))
    features *= torch.logspace(-6, 6, 500)[:, None]
    labels = LABELS[:500]
    whole = ptd_ext.instance_dependent_noise(features, labels, 0.3, random_state=1)
    for part in torch.arange(500).flip(0).split(13):
        some = ptd_ext.instance_dependent_noise(
            features[part].t().contiguous().t(),
            labels[part],
            0.3,
            random_state=1,
            ids=part,
            n_classes=7,
        )
        assert_equal(some, whole, part)


def test_default_statistics_do_not_depend_on_the_order():
    order = torch.randperm(len(LABELS), generator=new_generator(2))
    options = {"random_state": 5, "inputs": "standardised"}
    whole = ptd_ext.instance_dependent_noise(FEATURES, LABELS, 0.3, **options)
    other = ptd_ext.instance_dependent_noise(
        FEATURES[order], LABELS[order], 0.3, ids=order, **options
    )
    assert_equal(other, whole, order)
    assert whole.settings["mean"] == pytest.approx(FEATURES.double().mean().item(), rel=1e-5)
    assert whole.settings["std"] == pytest.approx(FEATURES.double().std().item(), rel=1e-4)


def test_seeds_and_ids_make_a_difference():
    labels = torch.zeros(2000, dtype=torch.int64)
    first = ptd_ext.noise.symmetric_noise(labels, 0.5, random_state=0, n_classes=10).noisy_labels
    for other in (
        ptd_ext.noise.symmetric_noise(labels, 0.5, random_state=1, n_classes=10),
        ptd_ext.noise.symmetric_noise(labels, 0.5, random_state=2**32, n_classes=10),
        ptd_ext.noise.symmetric_noise(
            labels, 0.5, random_state=0, n_classes=10, ids=torch.arange(2000) + 2000
        ),
        ptd_ext.noise.symmetric_noise(
            labels, 0.5, random_state=0, n_classes=10, ids=torch.arange(2000) + 2**32
        ),
    ):
        # Two independent draws agree with probability ¼ + 9/18².
        assert (first == other.noisy_labels).double().mean().item() == pytest.approx(
            0.278, abs=0.04
        )


@pytest.mark.parametrize(
    ("inputs", "statistics"),
    [("raw", None), ("standardised", (127.0, 600.0)), ("standardised", (torch.rand(40), 500.0))],
)
def test_rows_are_those_of_algorithm_2(inputs, statistics):
    """p = q softmax(x · w_y) off the label, 1 − q on it, computed plainly."""
    made = ptd_ext.instance_dependent_noise(
        FEATURES, LABELS, 0.4, random_state=9, inputs=inputs, statistics=statistics
    )
    mean, std = (0, 1) if statistics is None else statistics
    x = (FEATURES.double() - mean) / std
    for label in range(CLASSES):
        members = label == LABELS
        w = noise_logits.projection(label, slice(0, 40), CLASSES, 9, torch.device("cpu")) / 2**16
        logits = x[members] @ w
        logits[:, label] = -torch.inf
        row = made.rows[members].double()
        q = 1 - row[:, label]
        expected = q[:, None] * logits.softmax(1)
        expected[:, label] = 1 - q
        torch.testing.assert_close(row, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize(
    ("rate", "percent"), [(0.0, 8.0), (0.1, 12.9), (0.2, 20.6), (0.3, 30.0), (0.5, 50.0)]
)
def test_flip_rates_are_truncated_normal(rate, percent):
    count = 100_000
    features = torch.zeros(count, 1)
    labels = torch.arange(count) % 10
    made = ptd_ext.instance_dependent_noise(features, labels, rate, random_state=2)
    flip_rates = 1 - made.rows.gather(1, labels[:, None])[:, 0].double()
    law = stats.truncnorm(-rate / 0.1, (1 - rate) / 0.1, loc=rate, scale=0.1)
    assert stats.kstest(flip_rates.numpy(), law.cdf).pvalue > 1e-3
    assert 100 * law.mean() == pytest.approx(percent, abs=0.1)
    deviation = (law.mean() * (1 - law.mean()) / count) ** 0.5
    assert made.realised_rate == pytest.approx(law.mean(), abs=4 * deviation)
    assert made.expected_rate == pytest.approx(law.mean(), abs=4 * law.std() / count**0.5)


@each_kind
def test_labels_are_drawn_from_their_rows(make):
    features, labels = samples(60_000, 5, seed=4)
    made = make(features, labels, random_state=8)
    torch.testing.assert_close(made.rows.sum(1), torch.ones(len(labels)))
    assert (made.rows >= 0).all()
    drawn = torch.nn.functional.one_hot(made.noisy_labels, CLASSES).double()
    rows = made.rows.double()
    assert (drawn[rows == 0] == 0).all()
    # Sums of independent draws: of every class, with every sample's own row; and of the samples
    # whose probability lies in a certain range.
    for label in range(CLASSES):
        of_class = labels == label
        assert_sums_agree(drawn[of_class], rows[of_class])
    for low in (0.01, 0.2, 0.4, 0.6, 0.8):
        inside = (rows > low) & (rows <= low + 0.2)
        assert_sums_agree(drawn[inside][:, None], rows[inside][:, None])


def assert_sums_agree(drawn, rows):
    deviation = (rows * (1 - rows)).sum(0).sqrt()
    assert ((drawn - rows).sum(0).abs() <= 4.5 * deviation).all()


def test_symmetric_and_pairwise_rows():
    symmetric = ptd_ext.noise.symmetric_noise(LABELS, 0.3, random_state=0)
    torch.testing.assert_close(
        symmetric.rows[LABELS == 2][0], torch.tensor([0.05] * 2 + [0.7] + [0.05] * 4)
    )
    pairwise = ptd_ext.noise.pairwise_noise(LABELS, 0.3, random_state=0)
    wrong = pairwise.noisy_labels != LABELS
    assert torch.equal(pairwise.noisy_labels[wrong], (LABELS[wrong] + 1) % CLASSES)
    for made in (symmetric, pairwise):
        assert made.realised_rate == pytest.approx(0.3, abs=0.03)
        assert made.expected_rate == pytest.approx(0.3, abs=1e-6)


def test_rates_at_the_ends():
    assert ptd_ext.noise.symmetric_noise(LABELS, 0.0, random_state=0).realised_rate == 0
    assert ptd_ext.noise.symmetric_noise(LABELS, 1.0, random_state=0).realised_rate == 1
    fixed = ptd_ext.instance_dependent_noise(FEATURES, LABELS, 0.25, random_state=0, rate_std=0)
    assert torch.equal(fixed.rows.gather(1, LABELS[:, None]), torch.full((3000, 1), 0.75))


def test_standardised_is_softer_than_raw():
    made = [
        ptd_ext.instance_dependent_noise(
            FEATURES, LABELS, 0.4, random_state=0, inputs=i, rate_std=0
        )
        for i in ("raw", "standardised")
    ]
    raw, soft = (m.rows.scatter(1, LABELS[:, None], 0).amax(1).mean().item() for m in made)
    assert raw > 0.39
    assert soft < 0.37


def test_nothing_to_do_and_classes_without_samples():
    empty = ptd_ext.instance_dependent_noise(
        torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), 0.2, random_state=0, n_classes=5
    )
    assert empty.rows.shape == (0, 5)
    assert len(empty.noisy_labels) == 0
    sparse = ptd_ext.instance_dependent_noise(
        FEATURES[:2], [1, 6], 0.2, random_state=0, n_classes=9
    )
    assert sparse.rows.shape == (2, 9)


def test_images_of_150528_numbers_take_bounded_memory(tmp_path):
    count, size, classes = 24, 150_528, 10
    path = tmp_path / "images"
    images = np.memmap(path, np.uint8, "w+", shape=(count, 3, 224, 224))
    images[:] = np.random.default_rng(0).integers(0, 256, images.shape, dtype=np.uint8)
    mapped = np.memmap(path, np.uint8, "r", shape=(count, 3, 224, 224))
    labels = torch.arange(count) % 3
    made = []

    def step():
        noise = ptd_ext.instance_dependent_noise(
            mapped, labels, 0.3, random_state=1, n_classes=classes
        )
        made.append(noise)

    assert peak_bytes(step) < 160 * 2**20  # w alone has 120 MB as float64
    tensor = torch.from_numpy(np.asarray(images)).view(count, size)
    assert_equal(
        ptd_ext.instance_dependent_noise(tensor, labels, 0.3, random_state=1, n_classes=classes),
        made[0],
    )


def test_memory_grows_with_samples_times_classes_only():
    features, labels = samples(40_000, 60, 10)
    used = peak_bytes(
        lambda: ptd_ext.instance_dependent_noise(features, labels, 0.3, random_state=1)
    )
    assert used < 40_000 * 60 * 8  # not even one copy in float64, let alone ten


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 1.5}, "rate must be from 0 to 1; got 1.5"),
        ({"rate": float("nan")}, "rate must be from 0 to 1; got nan"),
        ({"rate_std": -0.1}, "rate_std must be from 0 to 1; got -0.1"),
        ({"random_state": -1}, r"random_state must be an integer from 0 to \d+; got -1"),
        ({"random_state": 2**64}, r"random_state must be an integer from 0 to \d+; got "),
        ({"random_state": 1.5}, r"random_state must be an integer from 0 to \d+; got 1\.5"),
        ({"random_state": None}, r"random_state must be an integer from 0 to \d+; got None"),
        ({"inputs": "scaled"}, 'inputs must be "raw" or "standardised"; got \'scaled\''),
        ({"statistics": (0, 1)}, 'statistics need inputs="standardised"'),
        ({"features": FEATURES[:5]}, "features must have one row per label, 3000; got 5"),
        ({"features": torch.rand(3000)}, r"features must be \[N, D\] or \[N, …\]; got \[3000\]"),
        ({"features": torch.zeros(3000, 0)}, "features must have 1 to .* numbers a sample; got 0"),
        ({"labels": LABELS[:, None]}, r"labels must be \[N\]; got \[3000, 1\]"),
        ({"labels": LABELS - 1}, "labels must be from 0 to 5; got -1"),
        ({"n_classes": 4}, "labels must be from 0 to 3; got 6"),
        ({"labels": LABELS * 0}, "n_classes must be at least 2; got 1"),
        ({"ids": torch.arange(5)}, r"ids must be \[3000\], one per sample; got \[5\]"),
        ({"ids": torch.zeros(3000, dtype=torch.int64)}, "ids must be distinct; 0 occurs twice"),
        ({"ids": torch.arange(3000) - 1}, "ids must not be negative; got -1"),
        (
            {"inputs": "standardised", "statistics": (0, 0)},
            "std must be positive; got 0.0",
        ),
        (
            {"inputs": "standardised", "statistics": (torch.rand(3), 1)},
            r"mean must broadcast against a sample, \[40\]; got \[3\]",
        ),
        (
            {"inputs": "standardised", "features": torch.ones(3000, 2)},
            "features must vary and be finite to be standardised",
        ),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"features": FEATURES, "labels": LABELS, "rate": 0.3, "random_state": 0} | changes
    with pytest.raises(ValueError, match=message):
        ptd_ext.instance_dependent_noise(**arguments)


def test_bad_types_and_values():
    with pytest.raises(TypeError, match=r"labels must be integers; got torch.float32"):
        ptd_ext.noise.symmetric_noise(LABELS.float(), 0.3, random_state=0)
    with pytest.raises(TypeError, match=r"ids must be integers; got torch.float32"):
        ptd_ext.noise.symmetric_noise(LABELS, 0.3, random_state=0, ids=LABELS.float())
    features = FEATURES.float()
    features[17, 3] = torch.nan
    with pytest.raises(ValueError, match="features must be finite; those of sample 17 are not"):
        ptd_ext.instance_dependent_noise(features, LABELS, 0.3, random_state=0)


@pytest.mark.parametrize(("rate", "mean"), [(0.03, 0.092), (0.1, 0.129), (0.97, 0.908)])
def test_an_average_that_is_not_the_rate_is_warned_of(rate, mean):
    with pytest.warns(UserWarning, match=f"makes {mean:.1%} of the labels wrong on") as found:
        ptd_ext.instance_dependent_noise(FEATURES, LABELS, rate, random_state=0)
    assert found[0].filename == __file__
    std = float(re.search(r"rate_std=([\d.]+) for an average", str(found[0].message))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for close in (0.2, 0.3, 0.5):
            ptd_ext.instance_dependent_noise(FEATURES, LABELS, close, random_state=0)
        ptd_ext.instance_dependent_noise(FEATURES, LABELS, rate, random_state=0, rate_std=std)
