"""T(x)ᵀ is inverted on the simplex, and T is found by confident counts."""

import numpy as np
import pytest
import torch

import ptd_ext
from ptd_ext.label_issues.without_training.confident_counts import confident_transition
from ptd_ext.label_issues.without_training.inversion import invert_posterior

MATRIX = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]], dtype=torch.float64)


def test_what_a_clean_posterior_explains_exactly_is_found():
    torch.manual_seed(0)
    clean = torch.rand(50, 3, dtype=torch.float64).softmax(1)
    found = invert_posterior(clean @ MATRIX, None, MATRIX, iterations=20_000, tolerance=1e-12)
    torch.testing.assert_close(found, clean, atol=1e-6, rtol=0)


def test_each_row_is_inverted_through_its_own_matrix():
    torch.manual_seed(1)
    parts = torch.stack([MATRIX, torch.eye(3, dtype=torch.float64)])
    weights = torch.rand(20, 2, dtype=torch.float64)
    weights /= weights.sum(1, keepdim=True)
    clean = torch.rand(20, 3, dtype=torch.float64).softmax(1)
    noisy = torch.einsum("nr,rik,ni->nk", weights, parts, clean)
    found = invert_posterior(noisy, weights, parts, iterations=20_000, tolerance=1e-12)
    torch.testing.assert_close(found, clean, atol=1e-6, rtol=0)


def test_no_other_point_of_the_simplex_is_more_likely():
    # This posterior is outside of what the matrix can explain.
    noisy = torch.tensor([[0.98, 0.01, 0.01]], dtype=torch.float64)
    found = invert_posterior(noisy, None, MATRIX, iterations=20_000, tolerance=1e-12)
    value = (noisy * (found @ MATRIX).log()).sum()
    torch.manual_seed(2)
    others = torch.distributions.Dirichlet(torch.full((3,), 0.3).double()).sample((5000,))
    assert (noisy * (others @ MATRIX).log()).sum(1).max() <= value + 1e-9
    torch.testing.assert_close(found, torch.tensor([[1.0, 0, 0]]).double(), atol=1e-4, rtol=0)


def test_a_class_that_a_model_rules_out_may_be_the_true_one():
    matrix = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    found = invert_posterior(torch.tensor([[0.0, 1.0]]).double(), None, matrix, iterations=5000)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]).double(), atol=1e-2, rtol=0)


def test_the_iteration_ends_where_nothing_moves_any_more():
    p = torch.tensor([[0.98, 0.01, 0.01], [0.1, 0.1, 0.8]], dtype=torch.float64)
    once = invert_posterior(p, None, MATRIX, iterations=1)
    assert torch.equal(invert_posterior(p, None, MATRIX, tolerance=1.0), once)
    assert not torch.equal(invert_posterior(p, None, MATRIX), once)


def test_no_rows():
    assert invert_posterior(torch.empty(0, 3), None, MATRIX.float()).shape == (0, 3)


def test_confident_counts_find_the_matrix():
    torch.manual_seed(3)
    clean = torch.randint(3, (6000,))
    labels = torch.multinomial(MATRIX[clean], 1)[:, 0]
    # A model that knows the class of a row and not its draw predicts the row of the matrix.
    found = confident_transition(MATRIX[clean], labels)
    torch.testing.assert_close(found, MATRIX, atol=0.03, rtol=0)


def test_class_without_labels_keeps_its_row():
    labels = torch.tensor([0, 1, 0, 1])
    probabilities = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]] * 2, dtype=torch.float64)
    found = confident_transition(probabilities, labels)
    torch.testing.assert_close(found, torch.eye(3, dtype=torch.float64))


def test_no_row_counts_for_a_class_without_labels():
    """However probable it is: there is no row to say how probable such a class usually is."""
    labels = torch.tensor([0, 1, 0, 1])
    probabilities = torch.tensor([[0.4, 0.0, 0.6], [0.0, 0.4, 0.6]] * 2, dtype=torch.float64)
    found = confident_transition(probabilities, labels)
    torch.testing.assert_close(found, torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["pairwise", "symmetric"])
def test_out_of_fold_probabilities_alone(kind):
    torch.manual_seed(4)
    centres = 4 * torch.eye(3)
    clean = torch.randint(3, (900,))
    points = centres[clean] + torch.randn(900, 3)
    make = ptd_ext.pairwise_noise if kind == "pairwise" else ptd_ext.symmetric_noise
    noise = make(clean, 0.3, seed=0, classes=3)
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
    ("arguments", "sentence"),
    [
        ({}, "X must hold the rows, unless pred_probs or features are given"),
        ({"pred_probs": [[0.5, 0.6], [1, 0], [0, 1]]}, r"row 0 sums to 1.1\. Apply softmax"),
        ({"pred_probs": [[0.5, 0.5], [2, -1], [0, 1]]}, r"must be probabilities; row 1 is"),
        ({"pred_probs": [[0.5, 0.5], [1, 0]]}, r"one row for each of 3 labels; got 2"),
        ({"pred_probs": [[1.0, 0, 0, 0]] * 3, "classes": ["a", "b"]}, "a column for each of 2"),
        ({"pred_probs": [[1.0, 0, 0, 0]] * 3}, "4 columns and y 2 classes: say with classes"),
        ({"features": [[1.0], [2.0]]}, r"one row for each of 3 labels; got 2"),
        ({"pred_probs": [[0.5, 0.5]] * 3, "ids": [1, 1, 2]}, "ids must be different"),
    ],
)
def test_bad_predictions_get_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
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


def test_sparse_features_get_a_sentence():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="features must be a dense matrix; got a sparse one"):
        ptd_ext.find_label_issues(None, [0, 1, 0], features=sparse.csr_matrix(np.eye(3)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([0, 0, 1, 1, 2], "Class eel has one row"),
        (
            [0, 0, 1, 1, 2, 3, 4, 5, 6, 7],
            "Classes eel, fox, gnu, hen, ibis and 1 more have one row",
        ),
        ([0, 0, 1, 1], None),
    ],
)
def test_classes_of_one_row_are_doubted(given, sentence):
    names = np.array(["cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"])
    given = np.array(given)
    found = ptd_ext.find_label_issues(None, names[given], pred_probs=np.eye(given.max() + 1)[given])
    said = [text for text in found.warnings if "one row" in text]
    assert len(said) == (sentence is not None)
    if sentence is not None:
        assert said[0].startswith(sentence)
        assert said[0] in str(found)


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
    assert any("Row cat of T(x) rests on about" in text for text in found.warnings)


@pytest.mark.parametrize("kind", [bool, float])
def test_numbers_of_columns_are_no_names_of_labels(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1)))
    labels = np.tile([0, 1], 20).astype(kind)
    found = ptd_ext.find_label_issues(None, labels, pred_probs=frame)
    assert found.given_label.dtype == labels.dtype


def test_reversed_arrays_and_other_byte_orders():
    probabilities = np.tile([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], (20, 1))
    labels = np.tile([0, 1, 1], 20)
    plain = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    for turned in (probabilities[::-1].copy()[::-1], probabilities.astype(">f8")):
        found = ptd_ext.find_label_issues(None, labels, pred_probs=turned)
        np.testing.assert_array_equal(found.label_quality, plain.label_quality)


def test_data_frames_of_probabilities_and_features():
    """Columns that are named by the labels are these labels, whatever their order is."""
    pandas = pytest.importorskip("pandas")
    codes = torch.arange(60) % 2
    points = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)) + 6 * codes[:, None]
    probabilities = (torch.nn.functional.one_hot(codes) * 0.8 + 0.1).numpy()
    labels = [("no", "yes")[code] for code in codes]
    plain = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    frame = pandas.DataFrame(probabilities[:, ::-1], columns=["yes", "no"])
    found = ptd_ext.find_label_issues(None, labels, pred_probs=frame)
    assert found.trusted
    assert found.label_quality.tolist() == plain.label_quality.tolist()
    frame.columns = ["1", "0"]  # as a file names the columns of numbers
    numbered = ptd_ext.find_label_issues(None, codes, pred_probs=frame)
    assert numbered.label_quality.tolist() == plain.label_quality.tolist()
    unnamed = ptd_ext.find_label_issues(None, labels, pred_probs=pandas.DataFrame(probabilities))
    assert unnamed.label_quality.tolist() == plain.label_quality.tolist()
    both = [
        ptd_ext.find_label_issues(None, labels, features=each)
        for each in (points, pandas.DataFrame(points.numpy()))
    ]
    assert both[0].label_quality.tolist() == both[1].label_quality.tolist()


def test_labels_without_a_chance_are_ranked_by_the_model():
    """Otherwise the number of a row would decide which of them are flagged."""
    labels, probabilities = np.arange(200) % 2, np.tile([[0.9, 0.1], [0.1, 0.9]], (100, 1))
    wrong = np.arange(0, 80, 2)
    probabilities[wrong, 0] = np.logspace(-9, -20, len(wrong))
    probabilities[wrong, 1] = 1 - probabilities[wrong, 0]
    found = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    assert found.label_quality[wrong].max() < 1e-3
    assert found.most_doubtful()[: len(wrong)].tolist() == wrong[::-1].tolist()
