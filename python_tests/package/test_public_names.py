"""The public names, which users' code imports; removing one breaks that code."""

import importlib
import subprocess
import sys

import pytest

import ptd_ext

NAMES = [
    "ForwardLoss",
    "LabelIssues",
    "PTDClassifier",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "TrainedRun",
    "TransitionEM",
    "clean_posterior",
    "find_anchors",
    "find_label_issues",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "instance_dependent_noise",
    "reweight_loss",
]
ELSEWHERE = {
    "transition": [
        "Anchors",
        "Diagnosis",
        "EstimatedTransition",
        "LearnedParts",
        "LinearGate",
        "NeighbourTransition",
        "PartFit",
        "TransitionSummary",
        "approximation_error",
        "class_transition",
        "combine_pred_probs",
        "neighbour_transition",
    ],
    "noise": ["LabelNoise", "pairwise_noise", "symmetric_noise"],
    "ops": [
        "build_info",
        "noisy_posterior",
        "prepare_parts",
        "project_transition",
        "reference",
        "simplex_projection",
        "simplex_weights",
        "transition_matrix",
    ],
    "plot": [
        "image_grid",
        "part_images",
        "plot_noise_rates",
        "plot_part_images",
        "plot_parts",
        "plot_transition",
    ],
    "label_issues": [
        *("Answer", "Audit", "CleanedLabels", "Decision", "Decisions", "Evaluation", "Interval"),
        *("NoiseRate", "add_columns", "read_decisions", "undo"),
    ],
    "engine": [
        "FittedModel",
        "Judgement",
        "Preprocessing",
        "Settings",
        "TrainingData",
        "Validation",
        "fit",
    ],
}
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


@pytest.mark.parametrize("package", ELSEWHERE)
def test_names_elsewhere_have_no_second_copy_at_the_top(package):
    module = importlib.import_module(f"ptd_ext.{package}")
    assert sorted(module.__all__) == list(module.__all__) == ELSEWHERE[package]
    assert not set(module.__all__) & set(ptd_ext.__all__)
    for name in module.__all__:
        assert getattr(module, name).__doc__
        assert name not in vars(ptd_ext)


def test_dir_lists_what_users_type():
    listed = [name for name in dir(ptd_ext) if not name.startswith("__")]
    assert listed == sorted([*NAMES, *ELSEWHERE, "data", "experiments", "nn"])
    assert "__version__" in dir(ptd_ext)
    assert all(hasattr(ptd_ext, name) for name in listed)


def test_names_that_are_missing():
    with pytest.raises(AttributeError, match=r"module 'ptd_ext' has no attribute 'load_noise'$"):
        ptd_ext.load_noise  # noqa: B018
    with pytest.raises(ImportError):
        from ptd_ext import combine_posteriors  # noqa: F401


@pytest.mark.parametrize("package", ["transition", "noise", "ops", "plot", "label_issues"])
def test_the_error_for_a_name_says_where_it_is(package):
    for name in ELSEWHERE[package]:
        with pytest.raises(AttributeError, match=f"; use ptd_ext.{package}.{name}$"):
            getattr(ptd_ext, name)


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
    message = r'ptd_ext.PTDClassifier needs scikit-learn: pip install "ptd_ext\[all\]"\.$'
    with pytest.raises(ModuleNotFoundError, match=message):
        ptd_ext.PTDClassifier  # noqa: B018
