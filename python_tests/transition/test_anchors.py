"""Anchors: which samples each rule takes, by their ids; and T from them."""

import numpy as np
import pytest
import torch
from cases import each_device
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition import class_transition


def posterior(count=1000, classes=4, seed=0):
    g = new_generator(seed)
    return (3 * torch.randn(count, classes, generator=g)).softmax(1)


POSTERIOR = posterior()


@each_device
def test_band(device):
    anchors = ptd_ext.find_anchors(POSTERIOR.to(device))
    assert anchors.rule == "band"
    assert len(anchors) == 4
    for label in range(4):
        column = POSTERIOR[:, label].double()
        low, high = np.percentile(column.numpy(), [97, 99])
        inside = ((column >= low) & (column <= high)).nonzero()[:, 0]
        assert sorted(anchors[label].tolist()) == inside.tolist()
        chosen = column[anchors[label].cpu()]
        assert (chosen.diff() >= 0).all()
    assert anchors.counts == [20] * 4


def test_band_takes_count_spread_over_it():
    whole = ptd_ext.find_anchors(POSTERIOR, band=(90, 99), count=1000)
    some = ptd_ext.find_anchors(POSTERIOR, band=(90, 99), count=10)
    for label in range(4):
        places = [whole[label].tolist().index(i) for i in some[label].tolist()]
        assert len(places) == 10
        assert places[0] == 0
        assert places[-1] == len(whole[label]) - 1
        assert max(np.diff(places)) <= min(np.diff(places)) + 1
    assert len(ptd_ext.find_anchors(posterior(100_000, 2))[0]) == 1000


def test_percentile_is_the_papers_rule():
    """The largest of the samples below each percentile (the next one up)."""
    anchors = ptd_ext.find_anchors(POSTERIOR, rule="percentile", count=10)
    for label in range(4):
        column = POSTERIOR[:, label].numpy()
        expected = []
        for level in np.linspace(97, 99, 10):
            threshold = np.percentile(column, level, method="higher")
            expected.append(np.where(column >= threshold, 0, column).argmax())
        assert anchors[label].tolist() == expected


def test_argmax():
    anchors = ptd_ext.find_anchors(POSTERIOR, rule="argmax")
    assert [ids.tolist() for ids in anchors.ids] == POSTERIOR.argmax(0)[:, None].tolist()
    top = ptd_ext.find_anchors(POSTERIOR, rule="argmax", count=5)
    assert set(top[2].tolist()) == set(POSTERIOR[:, 2].topk(5).indices.tolist())


@pytest.mark.parametrize("rule", ["band", "percentile", "argmax"])
def test_ids_not_positions(rule):
    """However the samples are ordered, the same ones are found: also where they tie."""
    rounded = (POSTERIOR * 20).round() / 20
    rounded /= rounded.sum(1, keepdim=True)
    for scores in (POSTERIOR, rounded):
        plain = ptd_ext.find_anchors(scores, rule=rule, count=7)
        order = torch.randperm(1000, generator=new_generator(1))
        named = ptd_ext.find_anchors(scores[order], ids=order * 10 + 3, rule=rule, count=7)
        for ours, theirs in zip(named.ids, plain.ids, strict=True):
            assert torch.equal(ours, theirs * 10 + 3)


def by_sorting(scores, ids, first, last):
    """Ids of the samples from rank `first` to `last`, of every class."""
    order = ids.argsort()
    columns = (scores[order, label] for label in range(scores.shape[1]))
    return [ids[order][c.argsort(stable=True)[first : last + 1]].tolist() for c in columns]


@pytest.mark.parametrize("steps", [1000, 20, 1])  # the fewer, the more ties
@pytest.mark.parametrize("batch", [1, 7, 64, 5000])
def test_larger_than_memory(steps, batch, monkeypatch, tmp_path):
    """Whatever holds the pred_probs, and however it is cut, the ranks are those of a sort."""
    monkeypatch.setattr("ptd_ext.transition.pred_probs._BATCH_NUMBERS", 3 * batch)
    g = new_generator(steps)
    scores = ((torch.rand(1000, 3, generator=g) * steps).floor() + 1).double()
    scores = (scores / scores.sum(1, keepdim=True)).float()
    ids = torch.randperm(5000, generator=g)[:1000]
    np.save(tmp_path / "scores.npy", scores.numpy())
    memory_map = np.load(tmp_path / "scores.npy", mmap_mode="r")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(scores), batch)
    expected = by_sorting(scores, ids, 970, 989)
    for held in (scores, scores.numpy(), memory_map, loader, lambda: scores.split(batch)):
        found = ptd_ext.find_anchors(held, ids=ids)
        assert [each.tolist() for each in found.ids] == expected
        matrix = class_transition(held, found, ids=ids).transition
        assert torch.equal(matrix, class_transition(scores, found, ids=ids).transition)
    wrong = scores.clone()
    wrong[800] *= 2
    for held in (wrong, lambda: wrong.split(batch)):
        with pytest.raises(ValueError, match=r"row 800 has minimum .* and sum 2"):
            ptd_ext.find_anchors(held)
    with pytest.raises(ValueError, match=r"pred_probs must have at least 2 classes; got 1"):
        ptd_ext.find_anchors(lambda: scores[:, :1].split(batch))


@pytest.mark.parametrize("rule", ["band", "percentile", "argmax"])
def test_few_samples(rule):
    for count in (1, 2, 5):
        anchors = ptd_ext.find_anchors(posterior(count), rule=rule, count=20)
        assert all(1 <= n <= count for n in anchors.counts)
        assert all(len(set(ids.tolist())) == len(ids) for ids in anchors.ids)


def test_class_transition():
    anchors = ptd_ext.find_anchors(POSTERIOR, rule="argmax")
    matrix = class_transition(POSTERIOR, anchors).transition
    torch.testing.assert_close(matrix, POSTERIOR[POSTERIOR.argmax(0)])
    ids = torch.arange(1000) * 2
    band = ptd_ext.find_anchors(POSTERIOR, ids=ids)
    matrix = class_transition(POSTERIOR, band, ids=ids).transition
    torch.testing.assert_close(matrix[3], POSTERIOR[band[3] // 2].mean(0))
    torch.testing.assert_close(matrix.sum(1), torch.ones(4))
    lists = [ids.tolist() for ids in band.ids]
    assert torch.equal(class_transition(POSTERIOR, lists, ids=ids).transition, matrix)


def test_class_transition_of_clean_anchors_is_exact():
    truth = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.0, 0.4, 0.6]])
    labels = torch.arange(3000) % 3
    mixed = torch.rand(3000, 3, generator=new_generator(0)).softmax(1)
    clean = torch.where(torch.arange(3000)[:, None] < 300, torch.eye(3)[labels], mixed)
    found = ptd_ext.find_anchors(clean @ truth, rule="argmax", count=50)
    torch.testing.assert_close(class_transition(clean @ truth, found).transition, truth)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (POSTERIOR[0], {}, r"pred_probs must be \[N, C\]; got \[4\]"),
        (POSTERIOR.log(), {}, r"pred_probs must be probabilities, softmax\(logits\)"),
        (POSTERIOR * 2, {}, "row 0 has minimum .* and sum 2"),
        (POSTERIOR / 0, {}, r"pred_probs must be finite; pred_probs\[0, 0\] is inf"),
        (POSTERIOR[:0], {}, "pred_probs must have at least one sample"),
        ([], {}, "pred_probs must not be an empty sequence"),
        ([POSTERIOR, POSTERIOR[:5]], {}, r"the same shape .*; got \[1000, 4\], \[5, 4\]"),
        (POSTERIOR[:, :1] * 0 + 1, {}, "pred_probs must have at least 2 classes; got 1"),
        (POSTERIOR, {"rule": "top"}, "rule must be .*; got 'top'"),
        (POSTERIOR, {"band": (99, 97)}, r"band must be two rising percentiles .*; got \(99, 97\)"),
        (POSTERIOR, {"band": (97, 101)}, "band must be two rising percentiles"),
        (POSTERIOR, {"count": 0}, "count must be an integer >= 1; got 0"),
        (POSTERIOR, {"rule": "percentile"}, 'count must be given with rule="percentile"'),
        (POSTERIOR, {"ids": [1, 2]}, r"ids must be \[1000\], one per sample; got \[2\]"),
    ],
)
def test_bad_arguments(given, options, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.find_anchors(given, **options)


def test_bad_anchors():
    with pytest.raises(ValueError, match="anchors must be given for all 4 classes; got 2"):
        class_transition(POSTERIOR, [[0], [1]])
    with pytest.raises(ValueError, match="anchors must not be empty for any class; class 2 has"):
        class_transition(POSTERIOR, [[0], [1], [], [2]])
    message = r"anchors must be in ids; 1 of 5 are missing, the first is 1000"
    with pytest.raises(ValueError, match=message):
        class_transition(POSTERIOR, [[0], [1, 1000], [3], [2]])
    with pytest.raises(TypeError, match=r"pred_probs must be floating-point; got torch.int64"):
        ptd_ext.find_anchors(torch.ones(3, 3, dtype=torch.int64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 1.5}, r"count must be an integer .*; got 1\.5"),
        (
            {"rule": "percentile", "count": 10**12},
            "count must be an integer from 1 to 1048576; got 1000000000000",
        ),
        ({"band": (97,)}, r"band must be two rising percentiles from 0 to 100; got \(97,\)"),
    ],
)
def test_counts_and_bands_that_are_invalid(options, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.find_anchors(torch.rand(50, 3).softmax(1), **options)
