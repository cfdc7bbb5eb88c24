"""Losses and posteriors of odd shapes, layouts, types and numbers, against float64 definitions."""

from __future__ import annotations

import pytest
import torch
from fuzz_cases import (
    AROUND,
    NAMES,
    NIGHTLY,
    Case,
    assert_near,
    cases,
    check,
    check_loss,
    loss_of,
    make_case,
    make_options,
    shifted,
    surroundings,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import ptd_ext
from ptd_ext.ops import functional, reference


@cases(150)
@given(make_case(), make_options(), AROUND)
def test_losses(case, options, around):
    check_loss(case, options, around)


# The definition holds N matrices of C x C in float64, and several of each for its gradients.
MANY = st.sampled_from([(5, 257, 20), (5, 509, 13), (3, 1024, 3), (1, 2999, 1), (1, 3000, 2)])


@pytest.mark.slow
@cases(6)
@given(MANY.flatmap(lambda s: make_case(s[0], st.just(s[1]), s[2])), make_options(), AROUND)
def test_losses_of_many_classes(case, options, around):
    check_loss(case, options, around)


@pytest.mark.slow
@cases(4)
@given(MANY.flatmap(lambda s: make_case(s[0], st.just(s[1]), s[2])), AROUND)
def test_posteriors_of_many_classes(case, around):
    check_posterior(case, around, "noisy")
    check_posterior(case, around, "clean")


@cases(70)
@given(make_case(), AROUND, st.sampled_from(["clean", "noisy", "matrix", "projection"]))
def test_posteriors(case, around, which):
    check_posterior(case, around, which)


def check_posterior(case, around, which):
    def of(module):
        def clean(case):
            fixed = {"ignore_index": case.ignore_index, "smoothing": case.smoothing}
            return module.clean_posterior(case.logits, case.labels, *case.matrix, **fixed)

        return {
            "clean": clean,
            "noisy": lambda case: module.noisy_posterior(case.logits, *case.matrix),
            "matrix": lambda case: module.transition_matrix(*case.matrix),
            "projection": lambda case: module.project_transition(case.parts - 1 / 64),
        }[which]

    def fused(case: Case) -> Tensor:
        with surroundings(around):
            return of(functional)(case)

    check(case, fused, of(reference))


UPDATES = {
    "in place": lambda leaf: leaf.detach().mul_(0.5),
    "data": lambda leaf: leaf.data.mul_(0.5),
    "numpy": lambda leaf: leaf.detach().numpy().__imul__(0.5),
    "swap": lambda leaf: torch.utils.swap_tensors(leaf, (leaf.detach() * 0.5).requires_grad_()),
}


def fused_step(optimiser, leaf: Tensor) -> None:
    leaf.grad = -leaf.detach().abs() - 0.01  # parts stay positive
    optimiser([leaf], lr=1e-2, fused=True).step()
    leaf.grad = None


@cases(50)
@given(make_case(), make_options(), st.data())
def test_updates(case, options, data):
    """Tensors that change between calls, in the ways that no version counter sees too."""
    leaves = {n: t for n in NAMES[1:] if (t := getattr(case, n)) is not None}
    for _ in range(3):
        with torch.no_grad():
            found = loss_of(ptd_ext, case, options)
            wanted = loss_of(reference, shifted(case.exact()), options)
            assert_near(found, wanted, 3e-4, "value")
        name = data.draw(st.sampled_from(sorted(leaves)))
        change = data.draw(st.sampled_from([*UPDATES, "SGD", "Adam"]))
        if change in UPDATES:
            UPDATES[change](leaves[name])
        elif leaves[name].is_contiguous() and leaves[name].numel():
            fused_step(getattr(torch.optim, change), leaves[name])


@cases(2)
@given(make_case(9, st.sampled_from([3, 33])), make_options())
def test_compiled(case, options):
    torch.compiler.reset()
    backend = "inductor" if NIGHTLY else "aot_eager"  # which is the same but for generated code
    compiled = torch.compile(lambda case: loss_of(ptd_ext, case, options), backend=backend)
    check(case, compiled, lambda exact: loss_of(reference, exact, options))
