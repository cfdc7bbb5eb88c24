"""T is estimated by confident counts."""

import torch

from ptd_ext.label_issues.without_training.confident_counts import confident_transition

MATRIX = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]], dtype=torch.float64)


def test_confident_counts_find_the_matrix():
    torch.manual_seed(3)
    clean = torch.randint(3, (6000,))
    labels = torch.multinomial(MATRIX[clean], 1)[:, 0]
    # A model that knows the class of a row and not its draw predicts the row of the matrix.
    found = confident_transition(MATRIX[clean], labels).transition
    torch.testing.assert_close(found, MATRIX, atol=0.03, rtol=0)


def test_class_without_labels_keeps_its_row():
    labels = torch.tensor([0, 1, 0, 1])
    probabilities = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]] * 2, dtype=torch.float64)
    found = confident_transition(probabilities, labels).transition
    torch.testing.assert_close(found, torch.eye(3, dtype=torch.float64))


def test_no_row_counts_for_a_class_without_labels():
    """However probable it is: no row shows how probable such a class usually is."""
    labels = torch.tensor([0, 1, 0, 1])
    probabilities = torch.tensor([[0.4, 0.0, 0.6], [0.0, 0.4, 0.6]] * 2, dtype=torch.float64)
    found = confident_transition(probabilities, labels).transition
    torch.testing.assert_close(found, torch.eye(3, dtype=torch.float64))


def test_a_row_counts_for_a_class_whose_threshold_it_reaches():
    """Thresholds are 0.75 and 0.35."""
    probabilities = torch.tensor([[0.95, 0.05], [0.55, 0.45], [0.6, 0.4], [0.7, 0.3]]).double()
    found = confident_transition(probabilities, torch.tensor([0, 0, 1, 1])).transition
    # Rows 1 and 2 count for class 1, which is less probable; row 3 counts for none. The counts
    # (0, 0): 1, (1, 0): 1 and (1, 1): 1 are scaled to two rows for each given label.
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0], [1 / 3, 2 / 3]]).double())


def test_a_row_at_the_threshold_counts():
    """As all rows of a class do where a model is equally sure of them."""
    probabilities = torch.tensor([[0.75, 0.25], [0.75, 0.25], [0.75, 0.25], [0.25, 0.75]]).double()
    found = confident_transition(probabilities, torch.tensor([0, 0, 1, 1])).transition
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 3], [0.0, 1.0]]).double())


def test_the_result_has_the_prior_of_the_true_classes():
    probabilities = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.2, 0.8], [0.1, 0.9]]).double()
    found = confident_transition(probabilities, torch.tensor([0, 0, 1, 1]))
    # Thresholds are 0.5 and 0.85; row 2 counts for no class.
    assert found.class_prior.tolist() == [0.25, 0.75]
    torch.testing.assert_close(found.transition, torch.tensor([[1, 0], [1 / 3, 2 / 3]]).double())
    assert found.noise_rate == 0.25
    assert found.summary().noise_rate == 0.25
