"""TransitionEM: the fused pass against the plain one, what it learns, and what it rejects."""

import numpy as np
import pytest
import torch
from random_numbers import new_generator
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import ptd_ext
from ptd_ext.transition.barrier import ClassBarrier


def mixture(samples=4000, classes=4, seed=0, rate=0.4):
    """Separable clusters whose labels go to the next class, or elsewhere, with probability rate."""
    g = torch.Generator().manual_seed(seed)
    clean = torch.randint(classes, (samples,), generator=g)
    centres = 4 * torch.eye(classes, 8)
    x = centres[clean] + torch.randn(samples, 8, generator=g)
    matrix = (1 - rate) * torch.eye(classes) + 0.8 * rate * torch.eye(classes).roll(1, 1)
    matrix += 0.2 * rate / (classes - 1) * (1 - torch.eye(classes))
    matrix /= matrix.sum(1, keepdim=True)
    noisy = torch.multinomial(matrix[clean], 1, generator=g)[:, 0]
    return x, clean, noisy, matrix


@pytest.mark.parametrize("hold", [True, False])
def test_no_wrong_label_is_likelier_than_the_right_one(hold):
    """However high the rate: T would otherwise name another permutation of the classes."""
    labels, base = [0, 1, 2, 3], torch.eye(4).roll(1, 1)
    em = ptd_ext.TransitionEM(labels, 0.7, base=base, base_share=1.0, hold_diagonal=hold)
    em.joint.copy_(base / 4)
    matrix = em.transition
    torch.testing.assert_close(matrix.sum(1), torch.ones(4))
    torch.testing.assert_close(matrix, (torch.eye(4) + base) / 2)


def train(em, x, noisy, epochs=6, seed=0):
    torch.manual_seed(seed)
    network = nn.Linear(x.shape[1], em.n_classes)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(100):
            loss = em(network(x[batch]), noisy[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


def batch(n=60, classes=5, seed=0, dtype=torch.float32):
    g = new_generator(seed)
    logits = 3 * torch.randn(n, classes, generator=g, dtype=dtype)
    return logits, torch.randint(classes, (n,), generator=g)


@pytest.mark.parametrize("prior", [None, "uniform", torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1])])
@pytest.mark.parametrize("n", [60, 7])  # with 7, the mean prediction is a running mean
def test_fused_pass_equals_the_plain_one(prior, n):
    logits, labels = batch(n)
    # A class that is hardly predicted makes the barrier count.
    logits[:, 2] -= 12
    shares = torch.tensor([0, 1, 2, 2, 3, 4, 4, 4, 0, 1])
    em = ptd_ext.TransitionEM(shares, 0.3, n_classes=5, class_prior=prior, window=200)
    for step in range(12):
        old, before = em.transition, em.joint.clone()
        plain_barrier = ClassBarrier(shares.bincount() / 10, prior)
        plain_barrier.load_state_dict(em.barrier.state_dict())
        z = logits.roll(step, 0).requires_grad_()
        plain = ptd_ext.forward_loss(z, labels, None, old) + plain_barrier(z)
        (expected,) = torch.autograd.grad(plain, z)
        loss = em(z, labels)
        (found,) = torch.autograd.grad(3 * loss, z)
        torch.testing.assert_close(loss, plain)
        torch.testing.assert_close(found, 3 * expected)
        q = ptd_ext.clean_posterior(z.detach(), labels, None, old)
        counts = q.T @ nn.functional.one_hot(labels, 5).float() / n
        weight = 1.0 if step == 0 else n / 200
        torch.testing.assert_close(em.joint, torch.lerp(before, counts, weight))
    assert plain_barrier(z) > 1e-3


def test_gradient_is_that_of_the_value():
    logits, labels = batch(12, dtype=torch.float64)
    em = ptd_ext.TransitionEM(labels, 0.3, n_classes=5).double().eval()
    logits[:, 1] -= 9
    # The mean of a small batch is a running one, for which the gradient is not that of the value.
    logits, labels = logits.repeat(6, 1).requires_grad_(), labels.repeat(6)
    assert torch.autograd.gradcheck(lambda z: em(z, labels), logits)


class NoCopies(TorchDispatchMode):
    """Raise for a copy between devices."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = torch.utils._pytree.tree_leaves((args, kwargs, found))
        devices = {x.device for x in tensors if isinstance(x, torch.Tensor) and x.dim()}
        assert len(devices) < 2, f"{function} copies between {devices}"
        return found


@pytest.mark.parametrize("prior", [None, "uniform"])
@pytest.mark.parametrize("n", [60, 7])
def test_a_step_does_not_wait_for_the_device(prior, n):
    """Tensors on the meta device have no values, so that code that reads one raises."""
    _, labels = batch(n)
    options = {"n_classes": 5, "class_prior": prior}
    em = ptd_ext.TransitionEM(labels, 0.3, **options).to("meta")
    logits = torch.empty(n, 5, device="meta", requires_grad=True)
    labels = labels.to("meta")
    barrier = ClassBarrier(torch.full((5,), 0.2), prior).to("meta")
    with NoCopies():
        for _ in range(2):
            em(logits, labels).backward()
        barrier(logits).backward()
        with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
            em.joint.sum().item()


def test_recovers_the_matrix_and_the_classes():
    x, clean, noisy, matrix = mixture()
    em = ptd_ext.TransitionEM(noisy, 0.4, base_share=0.0)
    network = train(em, x, noisy)
    assert (network(x).argmax(1) == clean).float().mean() > 0.95
    assert (em.transition - matrix).abs().sum(1).max() < 0.1
    summary = em.summary()
    assert abs(summary.noise_rate - 0.4) < 0.01
    assert summary.variation == 0
    assert "40.0% of labels wrong" in str(summary)


def test_free_diagonal_is_learned():
    x, _, noisy, matrix = mixture(rate=0.3)
    em = ptd_ext.TransitionEM(noisy, 0.4, hold_diagonal=False, base_share=0.0, window=4000)
    train(em, x, noisy)
    assert (em.transition.diagonal() - matrix.diagonal()).abs().max() < 0.08


def test_state_goes_on_to_the_same_bits():
    x, _, noisy, _ = mixture(1000)
    em, again = (ptd_ext.TransitionEM(noisy, rate) for rate in (0.4, 0.2))
    train(em, x, noisy, 1)
    again.load_state_dict(em.state_dict())
    for one in (em, again):
        train(one, x, noisy, 1, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(em.buffers(), again.buffers(), strict=True))


def test_evaluation_and_ignored_samples_do_not_count():
    logits, labels = batch()
    em = ptd_ext.TransitionEM(labels, 0.3, n_classes=5)
    before = em.joint.clone()
    em.eval()(logits, labels)
    em.train()(logits, torch.full_like(labels, -100))
    assert torch.equal(em.joint, before)
    assert em.seen == 0
    some = torch.where(labels == 1, -1, labels)
    em(logits, some, ignore_index=-1)
    assert em.seen == (labels != 1).sum()
    assert em.joint[:, 1].max() == 0


def test_half_logits_and_a_class_without_labels():
    logits, labels = batch()
    labels = labels.clamp(max=3)
    em = ptd_ext.TransitionEM(labels, 0.3, n_classes=5)
    z = logits.bfloat16().requires_grad_()
    em(z, labels).backward()
    assert z.grad.dtype == torch.bfloat16
    assert z.grad.isfinite().all()
    assert em.transition.isfinite().all()
    torch.testing.assert_close(em.transition.sum(1), torch.ones(5))


def test_two_classes_one_sample():
    em = ptd_ext.TransitionEM([0, 1], 0.3)
    loss = em(torch.tensor([[1.0, -1.0]], requires_grad=True), torch.tensor([1]))
    loss.backward()
    torch.testing.assert_close(em.transition, torch.tensor([[0.7, 0.3], [0.3, 0.7]]))


@pytest.mark.parametrize(
    ("labels", "rate", "options", "message"),
    [
        ([0, 1, 2], 1.2, {}, "noise_rate must be from 0 to 1; got 1.2"),
        ([0, 1], 0.5, {}, "less than 0.5 for 2 classes"),
        ([], 0.3, {"n_classes": 3}, "got none"),
        ([0, 5], 0.3, {"n_classes": 3}, "labels must be from 0 to 2; got 5"),
        ([0, 1, 2], 0.3, {"class_prior": "flat"}, 'None, "uniform" or'),
        ([0, 1, 2], 0.3, {"class_prior": torch.ones(3)}, "sum 1"),
        ([0, 1, 2], 0.3, {"class_prior": torch.ones(2)}, r"must be \[3\]"),
        ([0, 1, 2], 0.3, {"barrier": -1}, "barrier must be at least 0"),
        ([0, 1, 2], 0.3, {"base_share": 2}, "base_share must be from 0 to 1"),
        ([0, 1, 2], 0.3, {"base": torch.ones(2, 2)}, r"base must be \[3, 3\]"),
        ([0, 1, 2], 0.3, {"window": 0}, "window must be an integer >= 1"),
        (
            [0, 1, 2],
            0.3,
            {"window": float("nan")},
            "window must be an integer >= 1; got nan",
        ),
        ([0, 1, 2**40], 0.3, {}, "n_classes must be at most 32,768; .*label is 1,099,511,627,776"),
    ],
)
def test_bad_arguments_get_an_error_message(labels, rate, options, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.TransitionEM(labels, rate, **options)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (None, {}, "labels must be a tensor, an array or a list of numbers; got None"),
        (["a", "b"], {}, r"labels must be a tensor, .*; got \['a', 'b'\]"),
        ([0, 1, 2], {"base": "flat"}, "base must be a tensor, .*; got 'flat'"),
        ([0, 1, 2], {"noise_rate": "0.3"}, "noise_rate must be from 0 to 1; got '0.3'"),
        ([0, 1, 2], {"n_classes": 3.5}, "n_classes must be an integer >= 0; got 3.5"),
    ],
)
def test_arguments_that_are_not_numbers(labels, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ptd_ext.TransitionEM(labels, **{"noise_rate": 0.3, **options})


def test_bad_logits_get_an_error_message():
    em = ptd_ext.TransitionEM([0, 1, 2], 0.3)
    with pytest.raises(TypeError, match=r"logits must be a torch.Tensor; got numpy.ndarray"):
        em(np.zeros((4, 3)), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"noisy_labels must be a torch.Tensor; got builtins.list"):
        em(torch.zeros(4, 3), [0, 1, 2, 0])
    with pytest.raises(ValueError, match=r"logits must be \[N, 3\]; got \[4, 2\]"):
        em(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least one row"):
        em(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))


def test_a_base_with_next_to_nothing_off_its_diagonal():
    """Its sums are too small to divide by: such rows are uniform."""
    base = torch.full((3, 3), 1e-35).fill_diagonal_(1.0)
    em = ptd_ext.TransitionEM(torch.arange(9) % 3, 0.3, base=base)
    torch.testing.assert_close(em.transition.sum(1), torch.ones(3))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_batch_that_overflowed_leaves_no_trace(bad):
    labels = torch.arange(30) % 3
    logits = torch.randn(30, 3, generator=new_generator(0))
    em, other = (ptd_ext.TransitionEM(labels, 0.3) for _ in range(2))
    assert not em(torch.full((30, 3), bad), labels).isfinite()
    torch.testing.assert_close(em(logits, labels), other(logits, labels))
    torch.testing.assert_close(em.state_dict(), other.state_dict())


def test_the_attributes_are_those_of_its_estimate():
    em = ptd_ext.TransitionEM([0, 1, 2, 1], 0.3)
    em(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1]))
    found = em.estimate()
    # The module itself is kept by its state dict, and its estimate by `estimate().save`.
    public = {name for name in dir(found) if not name.startswith("_")}
    public -= {"one_matrix", "save", "load"}
    assert public >= {"transition", "parts", "weights", "base", "summary", "noise_rate"}
    for name in public:
        own, value = getattr(em, name), getattr(found, name)
        if callable(value):
            own, value = own(), value()
        if isinstance(value, torch.Tensor):
            assert torch.equal(own, value), name
        else:
            assert str(own) == str(value), name


def test_verified_samples_that_nobody_looked_at_change_nothing():
    logits = torch.randn(40, 3, generator=new_generator(), dtype=torch.float64)
    labels = torch.arange(40) % 3
    plain, other = (ptd_ext.TransitionEM(labels, 0.3) for _ in range(2))
    first = plain(logits, labels)
    second = other(logits, labels, verified=torch.full((40,), -1))
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(plain.joint, other.joint)


def test_verified_samples_are_counted_as_what_they_are():
    labels = torch.tensor([0, 0, 1, 2])
    em = ptd_ext.TransitionEM(labels, 0.3, window=1)
    logits = torch.randn(4, 3, generator=new_generator(), requires_grad=True)
    em(logits, labels, verified=torch.tensor([2, 0, -3, 2])).backward()
    expected = torch.zeros(3, 3)
    expected[2, 0] = expected[0, 0] = expected[2, 2] = 1 / 3
    torch.testing.assert_close(em.joint, expected, atol=1e-6, rtol=0)
    assert logits.grad.isfinite().all()


def test_few_verified_samples_correct_a_matrix():
    """Of the most doubtful samples, in whatever order; nothing else knows that 0 becomes 1."""
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(3000) % 3
    given = torch.where((true == 0) & (torch.rand(3000, generator=generator) < 0.4), 1, true)
    logits = 1.5 * torch.eye(3)[true] + 1.5 * torch.eye(3)[given]  # errors of a network
    wrong = (given != true).nonzero()[:, 0]
    verified = torch.full((3000,), -1)
    verified[wrong[:300]] = true[wrong[:300]]
    errors = []
    for codes in (None, verified):
        em = ptd_ext.TransitionEM(given, 0.13, hold_diagonal=False, window=1, base_share=0.0)
        for _ in range(20):
            em(logits, given, verified=codes)
        errors.append(abs(em.transition[0, 1].item() - 0.4))
    assert errors[1] < 0.7 * errors[0]
