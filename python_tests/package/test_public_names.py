"""The public names, which users' code imports; removing one breaks that code."""

import importlib

import pytest

import ptd_ext

NAMES = [
    "Anchors",
    "Diagnosis",
    "ForwardLoss",
    "LabelNoise",
    "LearnedParts",
    "LinearGate",
    "NeighbourTransition",
    "PartFit",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "TransitionEM",
    "TransitionSummary",
    "approximation_error",
    "build_info",
    "class_transition",
    "clean_posterior",
    "combine_posteriors",
    "find_anchors",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "image_grid",
    "instance_dependent_noise",
    "load_noise",
    "neighbour_transition",
    "noisy_posterior",
    "pairwise_noise",
    "part_images",
    "plot_part_images",
    "prepare_parts",
    "project_transition",
    "reweight_loss",
    "save_noise",
    "simplex_projection",
    "simplex_weights",
    "symmetric_noise",
    "transition_matrix",
]
FUNCTIONS = [
    "clean_posterior",
    "forward_loss",
    "noisy_posterior",
    "project_transition",
    "reweight_loss",
    "transition_matrix",
]


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    assert name in ptd_ext.__all__
    assert getattr(ptd_ext, name).__doc__


def test_all_is_sorted_and_defined():
    assert list(ptd_ext.__all__) == sorted(ptd_ext.__all__)
    assert all(hasattr(ptd_ext, name) for name in ptd_ext.__all__)


def test_functional_and_reference_keep_their_short_names():
    functional = importlib.import_module("ptd_ext.functional")
    reference = importlib.import_module("ptd_ext.reference")
    assert ptd_ext.functional is functional
    assert ptd_ext.reference is reference
    for name in FUNCTIONS:
        assert getattr(functional, name) is getattr(ptd_ext, name)
        assert callable(getattr(reference, name))
