"""Part transitions from anchors: planted ones come back, optimality, and what diagnose reports."""

import itertools
import math
import warnings

import pytest
import torch
from cases import each_device, simplex_projection
from random_numbers import new_generator

import ptd_ext
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.transition._simplex_least_squares import simplex_least_squares
from ptd_ext.transition.fit import RIDGE, _chunks


def dirichlet(g, concentration, *shape):
    """Rows on the simplex: near a corner for a small concentration, in the middle for a large."""
    alpha = torch.full(shape, concentration, dtype=torch.float64)
    return torch._sample_dirichlet(alpha, generator=g)


def planted(classes, parts, per_class, *, concentration=1.0, noise=0.0, seed=0):
    """Weights, posteriors, anchors and the parts that the posteriors were made from."""
    g = new_generator(seed)
    weights = dirichlet(g, concentration, classes * per_class, parts)
    truth = dirichlet(g, 0.3, parts, classes, classes)
    labels = torch.arange(classes * per_class) % classes
    posterior = torch.einsum("nj,jnk->nk", weights, truth[:, labels])
    if noise:
        shape = posterior.shape
        noisy = posterior + noise * torch.randn(shape, generator=g, dtype=torch.float64)
        posterior = simplex_projection(noisy)
    anchors = [(labels == label).nonzero()[:, 0] for label in range(classes)]
    return weights, posterior, anchors, truth


@each_device
@pytest.mark.parametrize("size", [(2, 1, 3), (3, 4, 4), (10, 10, 50), (10, 20, 1000), (30, 5, 40)])
def test_planted_parts_come_back(size, device):
    weights, posterior, anchors, truth = planted(*size)
    fit = ptd_ext.fit_part_transitions(
        weights.to(device), posterior.to(device), anchors, ridge=1e-9
    )
    assert (fit.parts.cpu() - truth).abs().max() < 1e-4
    assert fit.parts.shape == truth.shape
    assert fit.residual.max() < 1e-5
    assert fit.kkt_residual.max() < 1e-9


def test_planted_parts_come_back_from_weights_that_resemble_each_other():
    weights, posterior, anchors, truth = planted(10, 20, 1000, concentration=3000.0)
    fit = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert min(fit.diagnose().condition) > 5e4
    assert (fit.parts - truth).abs().max() < 1e-4


@pytest.mark.parametrize("ridge", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("concentration", [0.2, 1.0, 100.0])
@pytest.mark.parametrize("size", [(10, 20, 500), (5, 30, 12), (40, 6, 9), (2, 2, 2)])
def test_optimal(size, concentration, ridge):
    """Rows on the simplex, and no residual of the optimality conditions."""
    weights, posterior, anchors, _ = planted(*size, concentration=concentration, noise=0.1)
    fit = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=ridge)
    assert fit.kkt_residual.max() < 1e-9
    assert (fit.parts >= 0).all()
    torch.testing.assert_close(fit.parts.sum(-1), torch.ones_like(fit.parts[..., 0]))
    if ridge < 0.1 and size == (10, 20, 500):
        assert (fit.parts == 0).any()  # exact zeros, which the kernels make use of


def objective(rows, weights, posterior, anchors, ridge, label):
    mix, target = weights[anchors[label]], posterior[anchors[label]]
    pull = ridge * (rows - target.mean(0)).square().sum()
    return (mix @ rows - target).square().sum() / len(mix) + pull


def test_no_step_inside_the_simplex_lowers_the_objective():
    weights, posterior, anchors, truth = planted(6, 5, 30, noise=0.1)
    ridge = 0.05
    fit = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=ridge)
    g = new_generator(1)
    for label in range(6):
        arguments = (weights, posterior, anchors, ridge, label)
        least = objective(fit.parts[:, label], *arguments)
        assert least <= objective(truth[:, label], *arguments)
        for size in (1e-4, 1e-2, 1):
            away = dirichlet(g, 0.5, 5, 6)
            there = (1 - size) * fit.parts[:, label] + size * away
            assert objective(there, *arguments) >= least


def test_against_all_supports():
    """The best of the solutions with given supports and sums, for sizes that allow it."""
    g = new_generator(3)
    for _ in range(5):
        mix, target = dirichlet(g, 1.0, 8, 2), dirichlet(g, 0.4, 8, 3)
        gram, right = mix.T @ mix, mix.T @ target
        best = math.inf
        faces = [f for n in (1, 2, 3) for f in itertools.combinations(range(3), n)]
        for first, second in itertools.product(faces, faces):
            free = [(0, k) for k in first] + [(1, k) for k in second]
            rows = solve_on(free, gram, right)
            if rows is not None:
                best = min(best, (mix @ rows - target).square().sum().item())
        found = simplex_least_squares(gram[None], right[None])[0]
        assert (mix @ found - target).square().sum().item() == pytest.approx(best, rel=1e-10)


def solve_on(free, gram, right):
    """Minimise with these entries free and sums of one; None where an entry comes out negative."""
    size = len(free)
    system = torch.zeros(size + 2, size + 2, dtype=torch.float64)
    wanted = torch.ones(size + 2, dtype=torch.float64)
    for a, (i, k) in enumerate(free):
        for b, (j, m) in enumerate(free):
            system[a, b] = gram[i, j] if k == m else 0
        system[a, size + i] = system[size + i, a] = 1
        wanted[a] = right[i, k]
    solution = torch.linalg.solve(system, wanted)[:size]
    if solution.min() < 0:
        return None
    rows = torch.zeros(2, 3, dtype=torch.float64)
    for value, place in zip(solution, free, strict=True):
        rows[place] = value
    return rows


def test_nothing_but_the_ridge():
    """A large ridge, or weights without information, leave the class-dependent row."""
    weights, posterior, anchors, _ = planted(5, 4, 60, noise=0.05)
    matrix = ptd_ext.transition.class_transition(posterior, anchors).transition
    strong = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=1e6)
    torch.testing.assert_close(strong.parts, matrix.expand(4, 5, 5), rtol=0, atol=1e-6)
    alike = torch.full_like(weights, 0.25)
    flat = ptd_ext.fit_part_transitions(alike, posterior, anchors, ridge=1e-3)
    torch.testing.assert_close(flat.parts, matrix.expand(4, 5, 5), rtol=0, atol=1e-9)


def test_one_part_is_the_class_transition():
    _, posterior, anchors, _ = planted(5, 4, 60)
    ones = torch.ones(len(posterior), 1, dtype=torch.float64)
    fit = ptd_ext.fit_part_transitions(ones, posterior, anchors)
    torch.testing.assert_close(
        fit.parts[0], ptd_ext.transition.class_transition(posterior, anchors).transition
    )


def test_ids_and_several_posteriors():
    weights, posterior, anchors, _ = planted(4, 3, 40)
    plain = ptd_ext.fit_part_transitions(weights, posterior, anchors)
    order = torch.randperm(160, generator=new_generator(0))
    named = [ids + 1000 for ids in anchors]
    moved = ptd_ext.fit_part_transitions(weights[order], posterior[order], named, ids=order + 1000)
    torch.testing.assert_close(moved.parts, plain.parts)
    folds = [(part + 1000, posterior[part]) for part in order.split(50)]
    crossed = ptd_ext.fit_part_transitions(weights[order], folds, named, ids=order + 1000)
    torch.testing.assert_close(crossed.parts, plain.parts)
    averaged = ptd_ext.fit_part_transitions(weights, [posterior, posterior], anchors)
    torch.testing.assert_close(averaged.parts, plain.parts)


def test_posteriors_larger_than_memory(monkeypatch):
    """Read in batches, and classes fitted a few at a time."""
    weights, posterior, anchors, _ = planted(5, 3, 40, noise=0.1)
    anchors[2] = anchors[2][:7]
    plain = ptd_ext.fit_part_transitions(weights, posterior, anchors)
    for numbers in (1, 500):
        monkeypatch.setattr("ptd_ext.transition.fit._NUMBERS", numbers)
        for held in (posterior, lambda: posterior.split(13)):
            fit = ptd_ext.fit_part_transitions(weights, held, anchors)
            for name in ("parts", "kkt_residual", "residual"):
                torch.testing.assert_close(getattr(fit, name), getattr(plain, name))
            assert fit.counts == plain.counts == (40, 40, 7, 40, 40)


def test_the_losses_take_the_parts():
    weights, posterior, anchors, _ = planted(4, 3, 40)
    fit = ptd_ext.fit_part_transitions(weights.float(), posterior.float(), anchors)
    assert fit.parts.dtype == torch.float32
    logits = torch.zeros(160, 4)
    ptd_ext.forward_loss(
        logits, torch.zeros(160, dtype=torch.int64), weights.float(), fit.parts, validate=True
    )


def test_the_losses_take_what_numpy_made():
    """float64 features and posteriors, as NumPy makes them, and a network's float32 logits."""
    g = new_generator(0)
    features = torch.rand(300, 6, generator=g, dtype=torch.float64).numpy()
    pred_probs = torch.randn(300, 4, generator=g, dtype=torch.float64).softmax(-1).numpy()
    weights = ptd_ext.SimplexNMF(3, random_state=0).fit_transform(features)
    anchors = ptd_ext.find_anchors(pred_probs, band=(80, 99))
    parts = ptd_ext.fit_part_transitions(weights, pred_probs, anchors).parts
    logits = torch.zeros(300, 4, requires_grad=True)
    labels = torch.arange(300) % 4
    loss = ptd_ext.forward_loss(logits, labels, torch.as_tensor(weights), parts, validate=True)
    loss.backward()
    assert loss.dtype == logits.grad.dtype == torch.float32
    expected = ptd_ext.ops.reference.forward_loss(
        logits.detach().double(), labels, torch.as_tensor(weights), parts
    )
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)


def test_the_driver_has_the_same_ridge():
    """One default, per anchor: twice the same anchors leave the parts as they are."""
    assert Settings().ridge == RIDGE
    weights, posterior, anchors, _ = planted(4, 3, 40, noise=0.1)
    once = ptd_ext.fit_part_transitions(weights, posterior, anchors)
    assert once.ridge == RIDGE
    twice = ptd_ext.fit_part_transitions(weights, posterior, [ids.repeat(2) for ids in anchors])
    torch.testing.assert_close(twice.parts, once.parts)


def test_diagnose():
    weights, posterior, anchors, _ = planted(4, 3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = ptd_ext.fit_part_transitions(weights, posterior, anchors).diagnose()
    assert report.anchors == [40] * 4
    assert report.rank == [3] * 4
    assert report.identified == [True] * 4
    for label in range(4):
        mix = weights[anchors[label]]
        eigenvalues = torch.linalg.eigvalsh(mix.T @ mix)
        condition = (eigenvalues[-1] / eigenvalues[0]).item()
        assert report.condition[label] == pytest.approx(condition)
        assert 1 < report.effective_rank[label] < 3
    lines = str(report).splitlines()
    assert len(lines) == 5
    assert "condition" in lines[0]
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(("classes", "end"), [(10, r"9 \(1\)\."), (11, r"9 \(1\), …\.")])
def test_diagnose_names_ten_classes(classes, end):
    weights, posterior, anchors, _ = planted(classes, 2, 10)
    fit = ptd_ext.fit_part_transitions(weights, posterior, [each[:1] for each in anchors])
    with pytest.warns(UserWarning, match=rf"{classes} of {classes} classes have .*, {end} Take"):
        fit.diagnose()


def test_diagnose_warns_of_rows_that_are_not_identified():
    weights, posterior, anchors, _ = planted(4, 6, 40)
    anchors[1] = anchors[1][:5]  # fewer than parts
    weights[anchors[3]] = weights[0].clone()  # all alike
    fit = ptd_ext.fit_part_transitions(weights.float(), posterior.float(), anchors)
    message = (
        r"2 of 4 classes have fewer than 6 independent anchors.*not identified and the ridge "
        r"decides: class \(independent anchors\) 1 \(5\), 3 \(1\)\. Take more anchors"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        report = fit.diagnose()
    assert caught[0].filename == __file__
    assert report.identified == [True, False, True, False]
    assert report.rank == [6, 5, 6, 1]
    assert [math.isinf(condition) for condition in report.condition] == [False, True, False, True]
    assert report.effective_rank[3] == pytest.approx(1, abs=1e-4)
    assert str(report).count("not identified") == 2
    without = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=0)
    assert without.kkt_residual.max() < 1e-9
    with pytest.warns(UserWarning, match="one of many solutions was taken"):
        without.diagnose()


def test_classes_with_different_numbers_of_anchors():
    """Each class has the fit and the diagnosis that it has among classes of its own size."""
    weights, posterior, anchors, _ = planted(4, 3, 40, noise=0.1)
    counts = (40, 3, 17, 1)
    anchors = [ids[:count] for ids, count in zip(anchors, counts, strict=True)]
    for ridge in (0.01, 2.0):
        fit = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=ridge)
        assert fit.counts == counts
        with pytest.warns(UserWarning, match=r"1 of 4 classes .* 3 \(1\)\."):
            report = fit.diagnose()
        assert report.anchors == list(counts)
        for label, ids in enumerate(anchors):
            alike = ptd_ext.fit_part_transitions(weights, posterior, [ids] * 4, ridge=ridge)
            torch.testing.assert_close(fit.parts[:, label], alike.parts[:, label])
            torch.testing.assert_close(fit.residual[label], alike.residual[label])
            mix = weights[ids]
            error = (mix @ fit.parts[:, label] - posterior[ids]).square().sum(1).mean().sqrt()
            torch.testing.assert_close(fit.residual[label], error)
            assert report.rank[label] == torch.linalg.matrix_rank(mix)


@pytest.mark.parametrize(("count", "rank"), [(1000, 1), (10, 2)])
def test_directions_within_rounding_do_not_count(count, rank):
    """Weights of float32 are known to 6e-8; with more anchors that matters less."""
    g = new_generator(0)
    apart = torch.randn(2 * count, 1, generator=g, dtype=torch.float64)
    apart[count:] *= 1e-6
    weights = (0.5 + torch.cat([apart, -apart], 1)).float()
    posterior = torch.full((2 * count, 2), 0.5)
    anchors = [torch.arange(count), torch.arange(count, 2 * count)]
    fit = ptd_ext.fit_part_transitions(weights, posterior, anchors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = fit.diagnose()
    assert report.rank == [2, rank]
    assert [math.isinf(condition) for condition in report.condition] == [False, rank == 1]


def test_bad_arguments():
    weights, posterior, anchors, _ = planted(4, 3, 10)
    for changes, message in (
        ({"ridge": -1}, "ridge must be at least 0; got -1"),
        ({"ridge": math.nan}, "ridge must be at least 0; got nan"),
        ({"weights": weights[:5]}, r"weights must be \[40, R\]; got \[5, 3\]"),
        ({"weights": weights[0]}, r"weights must be \[N, R\]; got \[3\]"),
        ({"weights": weights * math.nan}, r"weights must be finite; weights\[0, 0\] is nan"),
        ({"anchors": anchors[:2]}, "anchors must be given for all 4 classes; got 2"),
        ({"pred_probs": posterior.log()}, "pred_probs must be probabilities"),
    ):
        arguments = {"weights": weights, "pred_probs": posterior, "anchors": anchors} | changes
        with pytest.raises(ValueError, match=message):
            ptd_ext.fit_part_transitions(**arguments)


def test_anchors_that_all_have_the_same_weights():
    """Without a ridge G has rank one, and rounding can make it indefinite."""
    for seed in range(40):
        g = new_generator(seed)
        parts = int(torch.randint(10, 33, (), generator=g))
        same = (8 * torch.rand(1, parts, generator=g, dtype=torch.float64)).softmax(-1)
        posterior = (3 * torch.randn(120, 5, generator=g)).softmax(-1)
        anchors = [torch.arange(label, 120, 5) for label in range(5)]
        fit = ptd_ext.fit_part_transitions(same.expand(120, parts), posterior, anchors, ridge=0)
        assert fit.kkt_residual.max() < 1e-6
        for label, rows in enumerate(anchors):
            mixed = (same[0] @ fit.parts[:, label].double()).float()
            torch.testing.assert_close(mixed, posterior[rows].mean(0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("counts", [[2, 2, 2, 2, 2], [1, 9, 1, 1, 3], [30, 1, 1], [6], [3] * 7])
def test_chunks_hold_all_classes_and_little_at_once(counts, monkeypatch):
    limit = 6 * len(counts)  # numbers of two classes with three anchors each
    monkeypatch.setattr("ptd_ext.transition.fit._NUMBERS", limit)
    chunks = list(_chunks(counts, len(counts)))
    assert [label for chunk in chunks for label in range(len(counts))[chunk]] == [
        *range(len(counts))
    ]
    sizes = [(chunk.stop - chunk.start, max(counts[chunk])) for chunk in chunks]
    assert all(n == 1 or n * most * len(counts) <= limit for n, most in sizes)
    # No chunk could take the next class, too.
    for (n, most), after in zip(sizes, chunks[1:], strict=False):
        assert max(most, counts[after.start]) * (n + 1) * len(counts) > limit
