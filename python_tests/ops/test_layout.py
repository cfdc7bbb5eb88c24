"""Preparing parts: the layout, and that a changed tensor is never read stale."""

import itertools
from dataclasses import replace

import pytest
import torch
from cases import make_inputs, uniform
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import prepare_parts, reference


def loss_of(inputs, parts):
    return ptd_ext.forward_loss(inputs.logits, inputs.labels, inputs.weights, parts, inputs.slack)


@pytest.fixture(params=[(12, 6, 4, None), (12, 40, 4, 0.01)], ids=str)
def inputs(request):
    samples, classes, _, slack = request.param
    inputs = make_inputs(*request.param[:3], slack=slack, grad=False)
    # A label of each class, or of as many as there are samples: without slack, no other is read.
    return replace(inputs, labels=torch.arange(samples) % classes)


def test_layout():
    parts = uniform(3, 5, 5)
    prepared = prepare_parts(parts)
    assert torch.equal(prepared, parts)
    assert prepared.permute(2, 0, 1).is_contiguous()
    assert prepare_parts(prepared) is prepared
    single = prepare_parts(parts[0])
    assert torch.equal(single, parts[0])
    assert single.t().is_contiguous()


def test_prepared_gives_the_same(inputs):
    prepared = prepare_parts(inputs.parts)
    assert torch.equal(loss_of(inputs, prepared), loss_of(inputs, inputs.parts))


# Parts of more than 2^19 numbers are laid out once for all threads, smaller ones by each thread.
@pytest.mark.parametrize("size", [(40, 7, 3), (9, 190, 15), (70, 37, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_layout_gives_the_same_bits(size, dtype):
    inputs = make_inputs(*size, dtype=dtype, grad=False)
    inputs.labels[1] = -100
    prepared = prepare_parts(inputs.parts)
    expected = loss_of(inputs, prepared)
    for parts in (
        inputs.parts,
        inputs.parts.transpose(1, 2).contiguous().transpose(1, 2),
        inputs.parts.repeat_interleave(2, -1)[..., ::2],
        inputs.parts.flip(0).flip(0).expand_as(inputs.parts),
    ):
        assert torch.equal(loss_of(inputs, parts), expected)
        weights = inputs.weights.clone().requires_grad_()
        loss = ptd_ext.forward_loss(inputs.logits, inputs.labels, weights, parts)
        own = torch.autograd.grad(loss, weights)[0]
        other = ptd_ext.forward_loss(inputs.logits, inputs.labels, weights, prepared)
        assert torch.equal(own, torch.autograd.grad(other, weights)[0])


def with_gaps(tensor, dimension):
    """The same numbers, with NaN between them along one dimension."""
    wide = torch.stack([tensor, torch.full_like(tensor, torch.nan)], dimension + 1)
    return wide.flatten(dimension, dimension + 1)[(slice(None),) * dimension + (slice(0, None, 2),)]


def layouts_of(tensor):
    """Every order of the dimensions in memory, with gaps between rows or blocks and without."""
    axes = range(tensor.dim())
    for order in itertools.permutations(axes):
        back = [order.index(axis) for axis in axes]
        yield tensor.permute(order).contiguous().permute(back)
        yield with_gaps(tensor.permute(order).contiguous(), 0).permute(back)
        yield with_gaps(tensor.permute(order).contiguous(), 1).permute(back)


OPERATORS = [
    lambda i: ptd_ext.forward_loss(*i.arguments, reduction="none"),
    lambda i: ptd_ext.clean_posterior(*i.arguments),
    lambda i: ptd_ext.ops.noisy_posterior(i.logits, *i.transition),
]


def assert_same_results(given, contiguous):
    for operator in OPERATORS:
        results = []
        for inputs in (given, contiguous):
            value = operator(inputs)
            outer = torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view(value.shape)
            results.append([value, *torch.autograd.grad(value, inputs.leaves(), outer)])
        for found, wanted in zip(*results, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


# As many parts as classes, where two strides are easily taken for each other.
each_size = pytest.mark.parametrize("size", [(9, 4, 4), (9, 5, 3), (9, 33, 2)], ids=str)
each_slack = pytest.mark.parametrize("slack", [None, 0.02])


@each_size
@each_slack
def test_every_order_of_dimensions_and_gaps(size, slack):
    inputs = make_inputs(*size, slack=slack)
    matrices = [None] if slack is None else list(layouts_of(inputs.slack.detach()))
    for parts, matrix in itertools.zip_longest(layouts_of(inputs.parts.detach()), matrices):
        assert torch.equal(parts, inputs.parts)
        given = replace(inputs, parts=parts.requires_grad_())
        if matrix is not None:
            given = replace(given, slack=matrix.requires_grad_())
        assert_same_results(given, inputs)


@each_size
@each_slack
def test_expanded_dimensions(size, slack):
    """A dimension of stride zero beside every order of the others."""
    inputs = make_inputs(*size, slack=slack)
    for axis, order in itertools.product(range(3), itertools.permutations(range(3))):
        back = [order.index(k) for k in range(3)]
        moved = inputs.parts.detach().permute(order).contiguous()
        parts = moved.narrow(axis, 0, 1).expand_as(moved).permute(back)
        given = replace(inputs, parts=parts.requires_grad_())
        if slack is not None:
            matrix = inputs.slack.detach().narrow(axis % 2, 0, 1).expand_as(inputs.slack)
            turned = inputs.slack.detach().t().narrow(axis % 2, 0, 1).expand_as(inputs.slack).t()
            given = replace(given, slack=(turned if order[0] else matrix).requires_grad_())
        # A tensor with stride zero has its gradient summed by torch where it is one of its own.
        contiguous = given.map(lambda t: t.detach().contiguous().requires_grad_())
        assert_same_results(given, contiguous)


@pytest.mark.parametrize("prepare", [False, True])
def test_gradients_come_back_as_they_went_in(inputs, prepare):
    leaf = inputs.parts.clone().requires_grad_()
    for _ in range(2):  # prepared once, differentiated twice
        parts = prepare_parts(leaf) if prepare else leaf
        loss_of(inputs, parts).backward()
    assert leaf.grad.shape == leaf.shape
    own = prepare_parts(inputs.parts).clone().requires_grad_()
    loss_of(inputs, own).backward()
    torch.testing.assert_close(own.grad, leaf.grad / 2)


CHANGES = {
    "in place": lambda parts: parts.mul_(0.5),
    "through a view": lambda parts: parts[1].mul_(0.5),
    "through a transposed view": lambda parts: parts.permute(2, 1, 0)[0].fill_(0.1),
    "indexed": lambda parts: parts.__setitem__((0, 1, 2), 0.7),
    "copied into": lambda parts: parts.copy_(parts.flip(0)),
    "under no_grad": lambda parts: torch.no_grad()(lambda: parts.mul_(0.3))(),
    "out=": lambda parts: torch.mul(parts.clone(), 0.2, out=parts),
    "through .data": lambda parts: parts.data.mul_(0.5),
    "through NumPy": lambda parts: parts.numpy().__imul__(0.5),
    "swapped": lambda parts: torch.utils.swap_tensors(parts, parts.flip(0)),
}


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_changed_parts_are_read_again(inputs, change, layout):
    parts = inputs.parts.clone() if layout == "rows" else prepare_parts(inputs.parts).clone()
    before = loss_of(inputs, parts)
    change(parts)
    after = loss_of(inputs, parts)
    assert not torch.equal(before, after)
    assert torch.equal(after, loss_of(inputs, parts.clone()))


@pytest.mark.parametrize("layout", [torch.clone, lambda t: prepare_parts(t).clone()])
@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_fused_optimisers_change_parts(inputs, layout, optimiser):
    """Fused optimisers write into a parameter without raising its version counter."""
    parts = torch.nn.Parameter(layout(inputs.parts))
    step = optimiser([parts], lr=0.1, fused=True).step
    for _ in range(2):
        with torch.no_grad():
            before = loss_of(inputs, parts)
        loss_of(inputs, parts).backward()
        step()
        with torch.no_grad():
            after = loss_of(inputs, parts)
            assert not torch.equal(before, after)
            assert torch.equal(after, loss_of(inputs, parts.clone()))


def test_a_view_sees_changes_of_its_base(inputs):
    base = torch.stack([inputs.parts, inputs.parts.flip(0)])
    view = base[0]
    loss_of(inputs, view)
    base.mul_(0.5)
    assert torch.equal(loss_of(inputs, view), loss_of(inputs, view.clone()))


def test_another_tensor_at_the_same_address(inputs):
    """Freed and allocated again, the memory and often the object's id come back."""
    seen = set()
    for scale in range(1, 30):
        parts = inputs.parts / scale
        seen.add((id(parts), parts.data_ptr()))
        assert torch.equal(loss_of(inputs, parts), loss_of(inputs, parts.clone()))
        del parts
    assert len(seen) < 29  # it did happen


def test_inference_tensors(inputs):
    """Tensors made under inference_mode have no version counter."""
    with torch.inference_mode():
        parts = inputs.parts.clone()
        loss_of(inputs, parts)
        parts.mul_(0.5)
        assert torch.equal(loss_of(inputs, parts), loss_of(inputs, parts.clone()))


def test_evaluated_first_trained_later(inputs):
    """Nothing made under inference_mode may get into a training step."""
    for parts in (inputs.parts.clone(), prepare_parts(inputs.parts).clone()):
        with torch.inference_mode():
            loss_of(inputs, parts)
        logits = inputs.logits.clone().requires_grad_()
        ptd_ext.forward_loss(logits, inputs.labels, inputs.weights, parts, inputs.slack).backward()
        assert logits.grad.isfinite().all()


@pytest.mark.parametrize("layout", [torch.clone, lambda t: prepare_parts(t).clone()])
def test_rebound_data(inputs, layout):
    """`parts.data = other` moves no version counter."""
    parts, other = layout(inputs.parts), layout(inputs.parts.flip(0))
    loss_of(inputs, parts)
    parts.data = other
    assert torch.equal(loss_of(inputs, parts), loss_of(inputs, other.clone()))


def test_one_tensor_for_logits_of_two_types(inputs):
    parts = inputs.parts.float()
    double = loss_of(inputs, parts)  # float64 logits
    single = ptd_ext.forward_loss(
        inputs.logits.float(), inputs.labels, inputs.weights.float(), parts,
        None if inputs.slack is None else inputs.slack.float(),
    )  # fmt: skip
    assert double.dtype == torch.float64
    assert single.dtype == torch.float32
    torch.testing.assert_close(double, loss_of(inputs, parts.double()))


def test_wrong_shape():
    for shape in ((3,), (2, 3), (2, 3, 4), (1, 2, 3, 3)):
        with pytest.raises(ValueError, match=r"parts must be \[R, C, C\] or \[C, C\]; got"):
            prepare_parts(torch.zeros(shape))


def test_parts_that_differ_in_two_entries(inputs):
    """Changes that a weak checksum would miss: signs, exchanged entries, zeros that move."""
    if inputs.slack is None:
        pytest.skip("only the zeros among many classes are remembered")
    base = prepare_parts(inputs.parts).clone()
    flat = base.permute(2, 0, 1).view(-1)
    generator = new_generator(0)
    filled = flat.nonzero()[:, 0]
    for _ in range(50):
        a, b = filled[torch.randint(len(filled), (2,), generator=generator)].tolist()
        distance = 64 * int(torch.randint(1, 9, (), generator=generator))
        for first, second in ((a, b), (a, (a + distance) % len(flat))):
            kept = flat[[first, second]].clone()
            loss_of(inputs, base)
            flat[[first, second]] = kept.flip(0)
            arguments = (inputs.logits, inputs.labels, inputs.weights, base, inputs.slack)
            expected = reference.forward_loss(*arguments)
            torch.testing.assert_close(ptd_ext.forward_loss(*arguments), expected)
            flat[[first, second]] = kept
