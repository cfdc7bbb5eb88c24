"""Rules that large data do not depend on: small classes, columns, features, pictures."""

import io
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import ptd_ext
from ptd_ext.label_issues.chance import chance_warning, labels_follow_rows, without_own_row
from ptd_ext.label_issues.inputs import encoder, features
from ptd_ext.label_issues.inputs.samples import png_of, show_rows
from ptd_ext.label_issues.report.matrices import _entry
from ptd_ext.label_issues.training.in_memory import _held_out_likelihood, split_rows


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_every_class_keeps_a_row_to_train_on(share):
    codes = torch.tensor([0] * 10 + [1] * 3 + [2])
    train, validation = split_rows(codes, 4, share, seed=0)
    assert torch.cat([train, validation]).sort().values.tolist() == list(range(14))
    assert codes[train].unique().tolist() == [0, 1, 2]
    assert (codes[validation] == 0).sum() == min(round(10 * share), 9)


def test_a_held_out_label_that_is_ruled_out_has_a_likelihood():
    """Networks are compared by it, and one infinity would outweigh all other rows."""
    trainer = SimpleNamespace(
        best_network=lambda: None,
        predict=lambda network, split: SimpleNamespace(logits=torch.tensor([[0.0, 500.0]] * 2)),
        problem=SimpleNamespace(validation_labels=torch.tensor([0, 1])),
    )
    learned = SimpleNamespace(validation_weights=None, parts=torch.eye(2)[None], slack=None)
    found = _held_out_likelihood(trainer, learned)
    torch.testing.assert_close(found, torch.tensor([1e-30, 1.0]).log())


def test_entries_of_a_matrix_in_per_cent():
    assert [_entry(value) for value in (0.25, 1.0, 0.006, 0.004)] == ["25", "100", "1", ""]


def test_labels_that_are_no_columns_must_be_explained():
    probabilities = np.eye(4)[[0, 1, 3, 0, 1, 3]] * 0.6 + 0.1
    ptd_ext.find_label_issues(None, [0, 1, 3] * 2, pred_probs=probabilities)
    for labels in ([0, 1, 4], [-1, 0, 3], [0, 1, 2**40]):
        with pytest.raises(ValueError, match="say with classes which column is which"):
            ptd_ext.find_label_issues(None, labels * 2, pred_probs=probabilities)


def test_a_network_from_a_file_is_evaluated_not_trained(monkeypatch):
    network = torch.nn.Dropout()
    monkeypatch.setattr(features, "read_weights", lambda path: {"layer3.5.conv1.weight"})
    monkeypatch.setattr(features, "build", lambda name, classes, inputs: network)
    monkeypatch.setattr(features, "load_weights", lambda network, path: None)
    extract = features._resnet("weights.pt")
    assert not network.training
    assert torch.equal(extract(torch.ones(1, 8)), torch.ones(8))


def test_pictures_of_floats_are_scaled_to_all_shades():
    image = pytest.importorskip("PIL.Image")
    shades = np.linspace(-3, 5, 64 * 64).reshape(1, 64, 64)
    for pixels, expected in (
        (shades, (255 * (shades + 3) / 8).astype(np.uint8)),
        (np.full((1, 64, 64), 7.0), np.zeros((1, 64, 64), np.uint8)),
        ((200 * np.ones((3, 64, 64))).astype(np.uint8), np.full((1, 64, 64), 200, np.uint8)),
    ):
        found = np.asarray(image.open(io.BytesIO(png_of(pixels))))
        found = found[:: len(found) // 64, :: len(found) // 64]
        np.testing.assert_allclose(found[..., 0].astype(int), expected[0].astype(int), atol=1)


def test_a_little_above_chance_is_chance():
    """Two standard errors are exceeded by chance in one data set of forty."""
    codes = torch.arange(400) % 2
    no_gain = torch.full((100,), 0.5).log()
    for accuracy, chance in ((0.61, True), (0.64, True), (0.66, False)):
        said = chance_warning("It", accuracy, codes, codes[:100], no_gain)
        assert (said is not None) == chance
    spread = torch.tensor([1.0, -1.0]).repeat(50)  # a standard error of 0.1
    for gain, chance in ((0.25, True), (0.35, False)):
        said = chance_warning("It", 0.5, codes, codes[:100], no_gain + gain + spread)
        assert (said is not None) == chance


def test_few_rows_of_very_noisy_labels_are_told_from_chance():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(100, 3, generator=generator)
    wrong = torch.rand(100, generator=generator) < 0.3
    labels = (rows[:, 0] > 0) ^ wrong
    assert labels_follow_rows(rows, labels.long())
    assert labels_follow_rows(rows.view(100, 3, 1, 1), labels.long())
    assert not labels_follow_rows(rows[:, 1:], labels.long())
    assert not labels_follow_rows(torch.ones(100, 3), labels.long())
    shuffled = [torch.randperm(100, generator=generator) for _ in range(100)]
    assert sum(labels_follow_rows(rows, labels[order].long()) for order in shuffled) <= 5


def test_a_network_at_chance_flags_nothing_though_labels_follow_the_rows():
    """Forty rows that a line separates, and a network that has hardly begun to learn."""
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2
    rows = generator.standard_normal((40, 2)) + 6 * labels[:, None]
    assert labels_follow_rows(torch.from_numpy(rows), torch.from_numpy(labels))
    options = {"network": "linear", "method": "EM-F", "max_epochs": 1, "random_state": 0}
    found = ptd_ext.find_label_issues(rows, labels, **options)
    assert not found.trusted
    assert not found.is_label_issue.any()


def test_a_label_is_not_predicted_by_itself():
    """A model that was fitted to the row would explain any label of as many columns as rows."""
    generator = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(40, 40, generator=generator), torch.arange(40) % 2
    assert not labels_follow_rows(rows, labels)


def test_predictions_without_a_row_are_those_of_a_fit_without_it():
    """The statistic is the mean of leave-one-out predictions, fitted one by one."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(12, 2, generator=generator).double()
    labels = torch.tensor([0, 1] * 6)
    centred = rows - rows.mean(0)
    penalty = 10 * centred.square().sum() / 2
    expected = 0.0
    for row in range(12):
        others = torch.arange(12) != row
        mean, one_hot = centred[others].mean(0), torch.eye(2).double()[labels[others]]
        x = centred[others] - mean
        slopes = torch.linalg.solve(x.T @ x + penalty * torch.eye(2), x.T @ one_hot)
        expected += (one_hot.mean(0) + (centred[row] - mean) @ slopes)[labels[row]].item() / 12
    without = without_own_row(rows)
    predicted = without @ torch.eye(2).double()[labels]
    found = predicted.gather(1, labels[:, None]).mean().item()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_images_are_scaled_in_batches(monkeypatch, dtype):
    monkeypatch.setattr(encoder, "_IMAGES", 4)
    images = torch.randint(0, 256, (11, 2, 3, 5), generator=torch.Generator().manual_seed(0))
    images[:, 1] = 7  # a constant channel is not divided by zero
    given = images.to(dtype)
    found, scaled = encoder.InputEncoder.fit(given)
    assert torch.equal(given, images.to(dtype))  # the caller's images stay as they are
    values = images.double()
    torch.testing.assert_close(found.mean, values.mean((0, 2, 3)))
    spread = torch.stack([values[:, 0].std(correction=0), torch.ones(()).double()])
    torch.testing.assert_close(found.scale, spread)
    expected = (values - found.mean.view(1, 2, 1, 1)) / spread.view(1, 2, 1, 1)
    torch.testing.assert_close(scaled, expected.float())
    assert torch.equal(found.encode(given[5:]), scaled[5:])


def test_texts_in_a_shuffled_column_are_shown_by_position():
    pandas = pytest.importorskip("pandas")
    for index in ([2, 0, 1], ["x", "y", "z"]):
        show = show_rows(pandas.Series(["first", "second", "third"], index=index))
        assert [show(row).text for row in range(3)] == ["first", "second", "third"]


def test_datasets_of_other_things_get_a_sentence():
    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return SimpleNamespace(), 0

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(TypeError, match="sample 0 of the Dataset is SimpleNamespace"):
        encoder.from_dataset(Pictures())
    with pytest.raises(TypeError, match="must be a Dataset with a length"):
        encoder.from_dataset(Stream())


def test_half_precision_rows_are_taken():
    rows = torch.arange(12.0).reshape(6, 2).bfloat16()
    assert torch.equal(encoder.InputEncoder.fit(rows)[1], encoder.InputEncoder.fit(rows.float())[1])


def test_rows_that_share_an_id_are_told():
    rows, labels = np.arange(20.0)[:, None], np.arange(20) // 10
    for ids, told in ((np.arange(20) // 2, True), (np.arange(20), False)):
        found = ptd_ext.find_label_issues(rows, labels, ids=ids, network="linear", max_epochs=1)
        assert any("Some rows share an id" in text for text in found.warnings) == told


def test_times_as_ids_are_written_as_times(tmp_path):
    ids = np.datetime64("2020-01-01", "ns") + np.arange(3)
    found = ptd_ext.find_label_issues(None, [0, 1, 1], pred_probs=np.eye(2)[[0, 1, 1]], ids=ids)
    lines = found.to_csv(tmp_path / "labels.csv").read_text().splitlines()
    assert lines[2].startswith("2020-01-01T00:00:00.000000001,1,1,")


def test_findings_can_be_pickled():
    probabilities = np.tile(np.eye(2), (10, 1))
    found = ptd_ext.find_label_issues(["x", "y"] * 10, [0, 1] * 10, pred_probs=probabilities)
    assert pickle.loads(pickle.dumps(found)).sample(1).text == "y"
