"""Labels judged by out-of-fold probabilities, by embeddings, or by both."""

import dataclasses

import numpy as np
import pytest
import torch

import ptd_ext
from ptd_ext.label_issues import neighbour_evidence
from ptd_ext.label_issues.without_training.predictions import judge_predictions


@pytest.mark.parametrize("kind", ["pairwise", "symmetric"])
def test_out_of_fold_probabilities_alone(kind):
    torch.manual_seed(4)
    centres = 4 * torch.eye(3)
    clean = torch.randint(3, (900,))
    points = centres[clean] + torch.randn(900, 3)
    make = ptd_ext.noise.pairwise_noise if kind == "pairwise" else ptd_ext.noise.symmetric_noise
    noise = make(clean, 0.3, random_state=0, n_classes=3)
    matrix = torch.zeros(3, 3).index_put_(
        (clean, noise.noisy_labels), torch.ones(900), accumulate=True
    )
    matrix /= matrix.sum(1, keepdim=True)
    exact = (-(torch.cdist(points, centres) ** 2) / 2).softmax(1) @ matrix
    found = ptd_ext.find_label_issues(None, noise.noisy_labels, pred_probs=exact)
    wrong = (noise.noisy_labels != clean).numpy()
    assert abs(found.noise_rate.overall.estimate - wrong.mean()) < 0.05
    assert (found.is_label_issue == wrong).mean() > 0.95
    assert (found.suggested_label[wrong] == clean.numpy()[wrong]).mean() > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "X must hold the rows, unless pred_probs or features are given"),
        ({"pred_probs": [[0.5, 0.6], [1, 0], [0, 1]]}, r"row 0 sums to 1.1\. Apply softmax"),
        ({"pred_probs": [[0.5, 0.5], [2, -1], [0, 1]]}, r"must be probabilities; row 1 is"),
        ({"pred_probs": [[0.5, 0.5], [1, 0]]}, r"one row for each of 3 labels; got 2"),
        ({"pred_probs": [[1.0, 0, 0, 0]] * 3, "classes": ["a", "b"]}, "a column for each of 2"),
        ({"pred_probs": [[1.0, 0, 0, 0]] * 3}, "4 columns and y 2 classes: name the class"),
        ({"features": [[1.0], [2.0]]}, r"one row for each of 3 labels; got 2"),
    ],
)
def test_bad_predictions_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.find_label_issues(None, ["a", "b", "a"], **arguments)


@pytest.mark.parametrize("learned", [True, False])
def test_almost_one_class_only(learned):
    """No model predicts more labels than the frequent class has; a good one explains more."""
    generator = np.random.default_rng(0)
    labels = (np.arange(1000) % 50 == 0).astype(int)
    given = np.where(generator.random(1000) < 0.03, 1 - labels, labels)
    rare = np.where(labels, 0.6, 0.03) if learned else generator.uniform(0.02, 0.08, 1000)
    found = ptd_ext.find_label_issues(None, given, pred_probs=np.stack([1 - rare, rare], 1))
    assert found.trusted == learned
    assert found.is_label_issue.any() == learned
    if learned:
        assert (given != labels)[found.is_label_issue].mean() > 0.7


def test_sparse_features_are_rejected():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="features must be a dense matrix; got a sparse one"):
        ptd_ext.find_label_issues(None, [0, 1, 0], features=sparse.csr_matrix(np.eye(3)))


def test_rows_to_show_are_as_many_as_labels():
    with pytest.raises(ValueError, match="X must have one row for each of 3 labels; got 2"):
        ptd_ext.find_label_issues(["x", "y"], ["a", "b", "a"], pred_probs=[[0.5, 0.5]] * 3)


def test_probabilities_at_chance_are_not_trusted():
    torch.manual_seed(5)
    labels = torch.randint(2, (200,))
    probabilities = torch.rand(200, 2).softmax(1)
    found = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    assert not found.trusted
    assert not found.is_label_issue.any()
    assert "Nothing is flagged" in found.warnings[0]


@pytest.mark.parametrize("with_probabilities", [False, True])
def test_doubts_name_the_classes(with_probabilities):
    torch.manual_seed(6)
    codes = torch.arange(60) % 2
    features = torch.randn(60, 2) + 6 * codes[:, None]
    options = {"features": features}
    if with_probabilities:
        options["pred_probs"] = torch.nn.functional.one_hot(codes).double() * 0.8 + 0.1
    names = [("cat", "dog")[code] for code in codes]
    found = ptd_ext.find_label_issues(None, names, **options)
    assert found.trusted
    (caveat,) = (text for text in found.warnings if "rest on few samples" in text)
    assert caveat.endswith("each: cat, dog.")


def test_reversed_arrays_and_other_byte_orders():
    probabilities = np.tile([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], (20, 1))
    labels = np.tile([0, 1, 1], 20)
    plain = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    for turned in (probabilities[::-1].copy()[::-1], probabilities.astype(">f8")):
        found = ptd_ext.find_label_issues(None, labels, pred_probs=turned)
        np.testing.assert_array_equal(found.label_quality, plain.label_quality)


def test_labels_without_a_chance_are_ranked_by_the_model():
    """Otherwise the number of a row would decide which of them are flagged."""
    labels, probabilities = np.arange(200) % 2, np.tile([[0.9, 0.1], [0.1, 0.9]], (100, 1))
    wrong = np.arange(0, 80, 2)
    probabilities[wrong, 0] = np.logspace(-9, -20, len(wrong))
    probabilities[wrong, 1] = 1 - probabilities[wrong, 0]
    found = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    assert found.label_quality[wrong].max() < 1e-3
    assert found.most_doubtful()[: len(wrong)].tolist() == wrong[::-1].tolist()


def test_probabilities_alone_have_caveats_about_t():
    """A class with few rows, as `ptd-ext train` reports it."""
    codes = np.repeat([0, 1], [190, 20])
    found = ptd_ext.find_label_issues(None, codes, pred_probs=np.eye(2)[codes] * 0.8 + 0.1)
    assert found.trusted
    assert any("T(x)" in caveat and "about 20" in caveat for caveat in found.warnings)


def test_neighbours_at_chance_are_not_trusted():
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(200, 5, generator=generator), torch.arange(200) % 2
    found = ptd_ext.find_label_issues(None, labels, features=features)
    assert not found.trusted
    assert not found.is_label_issue.any()
    assert len(found.warnings) == 1
    assert "no more than random rows" in found.warnings[0]


@pytest.mark.parametrize(("errors", "is_clear"), [(0.9, False), (1.1, True)])
def test_neighbours_are_at_chance_within_their_standard_error(monkeypatch, errors, is_clear):
    """Of pairs of rows with labels that are independent: sqrt(p (1 - p) / pairs)."""
    g = np.random.default_rng(0)
    labels, features = np.arange(200) % 2, g.standard_normal((200, 3))
    estimate = neighbour_evidence.transition_of_neighbours

    def at_distance(codes, near, n_classes):
        pairs = near.numel()
        agreement = 0.5 + errors * neighbour_evidence.CLEARLY * (0.5 * 0.5 / pairs) ** 0.5
        found = estimate(codes, near, n_classes)
        return dataclasses.replace(found, agreement=agreement)

    monkeypatch.setattr(neighbour_evidence, "transition_of_neighbours", at_distance)
    found = ptd_ext.find_label_issues(None, labels, features=features)
    assert ("no more than random rows" not in " ".join(found.warnings)) == is_clear
    assert found.trusted == is_clear


def test_evidence_of_both_kinds_is_combined():
    """The probabilities separate class 0 from the others, and the features 1 from 2."""
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(1500) % 3
    wrong = torch.rand(1500, generator=generator) < 0.2
    given = torch.where(wrong, (true + 1) % 3, true)
    probabilities = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.4, 0.5], [0.1, 0.4, 0.5]])[true]
    features = torch.eye(2)[(true == 2).long()] + 0.1 * torch.randn(1500, 2, generator=generator)
    one = ptd_ext.find_label_issues(None, given, pred_probs=probabilities)
    other = ptd_ext.find_label_issues(None, given, features=features)
    both = ptd_ext.find_label_issues(None, given, pred_probs=probabilities, features=features)
    errors = [(found.is_label_issue != wrong.numpy()).mean() for found in (one, other, both)]
    assert errors[2] < 0.02 < 0.05 < min(errors[:2])


def test_copies_count_once():
    generator = np.random.default_rng(0)
    true = np.arange(300) % 3
    features = 4 * np.eye(3)[true] + generator.normal(size=(300, 3))
    given = np.where(generator.random(300) < 0.2, (true + 1) % 3, true)
    once = ptd_ext.find_label_issues(None, given, features=features)
    copies = np.tile(np.arange(300), 5)
    found = ptd_ext.find_label_issues(None, given[copies], features=features[copies])
    np.testing.assert_allclose(found.label_quality, once.label_quality[copies], atol=1e-3)
    random = generator.integers(0, 3, 300)
    found = ptd_ext.find_label_issues(None, random[copies], features=features[copies])
    assert not found.trusted


@pytest.mark.parametrize(("flag_share", "flagged"), [(0.0, 0), (0.4, 4), (1.0, 10)])
def test_flags_follow_the_share(flag_share, flagged):
    true = np.arange(100) % 2
    given = np.where(np.arange(100) < 10, 1 - true, true)
    options = {"classes": None, "ids": None}
    found = judge_predictions(given, np.eye(2)[true], None, flag_share=flag_share, **options)
    assert found.is_label_issue.sum() == flagged
    assert not found.is_label_issue[10:].any()


def test_shared_ids_are_a_caveat():
    found = ptd_ext.find_label_issues(
        None, [0, 1, 0], pred_probs=[[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]], ids=["a", "a", "b"]
    )
    assert found.ids.tolist() == ["a", "a", "b"]
    assert any("Some rows share an id" in warning for warning in found.warnings)


@pytest.mark.parametrize("scale", [1e-300, 1e-39, 1e39, 1e300])
def test_features_beyond_float32(scale):
    """Only their direction matters; a cast would make them zero or infinite."""
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    rows = 8 * np.eye(3)[labels] + generator.normal(size=(120, 3))
    labels[:6] = (labels[:6] + 1) % 3
    plain = ptd_ext.find_label_issues(None, labels, features=rows)
    found = ptd_ext.find_label_issues(None, labels, features=rows * scale)
    assert plain.trusted
    np.testing.assert_allclose(found.label_quality, plain.label_quality, atol=1e-5)
    one = rows.copy()
    one[-1] *= scale  # the others keep their size
    found = ptd_ext.find_label_issues(None, labels, features=one)
    np.testing.assert_allclose(found.label_quality, plain.label_quality, atol=1e-5)
