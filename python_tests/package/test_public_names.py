"""The public names, which users' code imports; removing one breaks that code."""

import importlib
import subprocess
import sys

import pytest

import ptd_ext

NAMES = [
    "Anchors",
    "Diagnosis",
    "EstimatedTransition",
    "ForwardLoss",
    "LabelIssues",
    "LabelNoise",
    "LearnedParts",
    "LinearGate",
    "NeighbourTransition",
    "PTDClassifier",
    "PartFit",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "TrainedRun",
    "TransitionEM",
    "TransitionSummary",
    "approximation_error",
    "build_info",
    "class_transition",
    "clean_posterior",
    "combine_pred_probs",
    "find_anchors",
    "find_label_issues",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "instance_dependent_noise",
    "neighbour_transition",
    "noisy_posterior",
    "pairwise_noise",
    "prepare_parts",
    "project_transition",
    "reweight_loss",
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
PLOTS = ["image_grid", "part_images", "plot_part_images", "plot_parts"]
LATER = (
    "engine",
    "data",
    "experiments",
    "label_issues",
    "plot",
    "transition",
    "nmf",
    "noise",
    "nn",
)


def test_the_names_are_these():
    assert sorted(ptd_ext.__all__) == list(ptd_ext.__all__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    assert getattr(ptd_ext, name).__doc__


def test_dir_lists_all_names_and_packages():
    listed = dir(ptd_ext)
    assert set(NAMES) <= set(listed)
    assert {"__version__", "functional", "reference", "plot", "label_issues"} <= set(listed)
    assert all(hasattr(ptd_ext, name) for name in listed)


def test_names_that_are_missing():
    with pytest.raises(AttributeError, match="module 'ptd_ext' has no attribute 'load_noise'"):
        ptd_ext.load_noise  # noqa: B018
    with pytest.raises(ImportError):
        from ptd_ext import combine_posteriors  # noqa: F401


@pytest.mark.parametrize("name", PLOTS)
def test_plots_have_a_module_of_their_own(name):
    plot = importlib.import_module("ptd_ext.plot")
    assert name in plot.__all__
    assert name not in ptd_ext.__all__
    assert getattr(plot, name).__doc__


def fresh(code):
    """The output of a new interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_import_loads_the_operators_only():
    loaded = fresh("import sys, ptd_ext; print(*sys.modules)").split()
    assert "torch" in loaded
    assert not [name for name in loaded if name.startswith(tuple(f"ptd_ext.{p}" for p in LATER))]
    assert not {"matplotlib", "pandas", "sklearn", "scipy", "safetensors"} & set(loaded)


@pytest.mark.parametrize("name", ["PTDClassifier", "find_label_issues", "TrainedRun", "SimplexNMF"])
def test_names_are_imported_on_first_use(name):
    code = (
        f"import ptd_ext; a = ptd_ext.{name}; assert '{name}' in vars(ptd_ext); print(a.__name__)"
    )
    assert fresh(code).strip() == name


def test_packages_are_attributes():
    code = f"import ptd_ext; print(*(getattr(ptd_ext, name).__name__ for name in {LATER}))"
    assert fresh(code).split() == [f"ptd_ext.{name}" for name in LATER]
    assert fresh("import ptd_ext; print(ptd_ext.engine.fit.__name__)").strip() == "fit"


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.delitem(vars(ptd_ext), "PTDClassifier", raising=False)
    monkeypatch.delitem(sys.modules, "ptd_ext.label_issues.classifier", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    message = r'PTDClassifier needs sklearn.*: pip install "ptd_ext\[labels\]"'
    with pytest.raises(ModuleNotFoundError, match=message):
        ptd_ext.PTDClassifier  # noqa: B018


def test_functional_and_reference_keep_their_short_names():
    functional = importlib.import_module("ptd_ext.functional")
    reference = importlib.import_module("ptd_ext.reference")
    assert ptd_ext.functional is functional
    assert ptd_ext.reference is reference
    for name in FUNCTIONS:
        assert getattr(functional, name) is getattr(ptd_ext, name)
        assert callable(getattr(reference, name))
