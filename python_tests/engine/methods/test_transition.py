"""CE, Forward, Reweight, T-Revision and PTD: what each loss is, and where its gradient goes."""

from types import SimpleNamespace

import pytest
import torch
from random_numbers import new_generator
from torch.nn import functional as F
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.methods.transition import TrainWithTransition
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.stage import Batch
from ptd_ext.engine.stage.state import SampleTransitions, StageOutputs
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import CleanReference, load_problem
from ptd_ext.experiments.run.experiment import train

N, C, R = 40, 5, 3


@pytest.fixture
def run():
    generator = new_generator(0)
    weights = torch.rand(N, R, generator=generator, dtype=torch.float64).softmax(-1)
    parts = torch.randn(R, C, C, generator=generator, dtype=torch.float64).softmax(-1)
    data = SimpleNamespace(n_classes=C, train_size=N, verified=None)
    return SimpleNamespace(data=data, outputs=outputs_of(weights, parts))


def outputs_of(weights, parts):
    return StageOutputs(estimate=SampleTransitions(weights, weights[:0], parts))


def stage_of(method, run, index, **settings):
    stage = METHODS[method].stages(Settings(**settings))[index]
    stage.begin(run)
    return stage.double()


def batch_of(size=17):
    generator = new_generator(1)
    ids = torch.randperm(N, generator=generator)[:size]
    labels = torch.randint(C, (size,), generator=generator)
    logits = torch.randn(size, C, generator=generator, dtype=torch.float64, requires_grad=True)
    return Batch(ids, labels, 0, 0), logits


def noisy_probability(run, batch, logits, slack=None):
    """(T'(x)ᵀg)_ȳ sample by sample, T' = T(x) + ΔT clamped and normalised."""
    found, t = [], run.outputs.estimate
    for row, (n, label) in enumerate(zip(batch.ids.tolist(), batch.labels.tolist(), strict=True)):
        matrix = sum(t.weights[n, j] * t.parts[j] for j in range(len(t.parts)))
        if slack is not None:
            matrix = (matrix + slack).clamp(min=0)
            matrix = matrix / matrix.sum(1, keepdim=True)
        found.append((logits[row].softmax(0) @ matrix)[label])
    return torch.stack(found)


def test_cross_entropy_is_the_forward_loss_of_the_identity(run):
    """It takes logits: a cross entropy of softmax outputs would be another number."""
    batch, logits = batch_of()
    (loss,) = stage_of("CE", run, 0).losses(batch, [logits])
    torch.testing.assert_close(loss, F.cross_entropy(logits, batch.labels), rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = (logits.softmax(1) - F.one_hot(batch.labels, C)) / len(logits)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("method", ["PTD-F", "PTD-F-V"])
def test_the_forward_loss_takes_each_sample_s_own_matrix(run, method):
    """The matrix is looked up by the sample's id, not by its position in the batch."""
    batch, logits = batch_of()
    (loss,) = stage_of(method, run, 1).losses(batch, [logits])
    expected = -noisy_probability(run, batch, logits).log().mean()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    wrong = Batch(torch.arange(len(batch.ids)), batch.labels, 0, 0)
    assert (stage_of(method, run, 1).losses(wrong, [logits])[0] - loss).abs() > 1e-4


@pytest.mark.parametrize("method", ["PTD-R", "PTD-R-V"])
def test_reweighting_weighs_cross_entropy_without_a_gradient_through_the_weight(run, method):
    batch, logits = batch_of()
    (loss,) = stage_of(method, run, 1).losses(batch, [logits])
    (gradient,) = torch.autograd.grad(loss, logits)
    posterior = logits.detach().softmax(1)
    picked = posterior.gather(1, batch.labels[:, None])[:, 0]
    importance = picked / noisy_probability(run, batch, logits.detach())
    torch.testing.assert_close(loss, -(importance * picked.log()).mean(), rtol=1e-6, atol=0)
    expected = importance[:, None] * (posterior - F.one_hot(batch.labels, C)) / len(logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("method", ["Forward", "Reweight", "Forward-band"])
def test_one_matrix_is_ptd_with_one_part(run, method):
    run.outputs = outputs_of(torch.ones(N, 1).double(), run.outputs.estimate.parts[:1])
    batch, logits = batch_of()
    (loss,) = stage_of(method, run, 1, n_parts=1).losses(batch, [logits])
    probability = noisy_probability(run, batch, logits)
    expected = -probability.log().mean()
    if method == "Reweight":
        picked = logits.softmax(1).gather(1, batch.labels[:, None])[:, 0]
        expected = -(picked / probability * picked.log()).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)


def test_forward_revision_learns_the_slack_with_the_network(run):
    """ΔT is added once, not once per sample of the batch, and gets the likelihood's gradient."""
    stage = stage_of("PTD-F-V", run, 2)
    assert stage.start == "best"
    assert (stage.slack == 0).all()
    with torch.no_grad():
        stage.slack += 0.1 * torch.randn(C, C, generator=new_generator(3))
    batch, logits = batch_of()
    (loss,) = stage.losses(batch, [logits])
    slack = stage.slack.detach().clone().requires_grad_()
    expected = -noisy_probability(run, batch, logits, slack).log().mean()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    found = torch.autograd.grad(loss, [logits, stage.slack])
    torch.testing.assert_close(
        found, torch.autograd.grad(expected, [logits, slack]), rtol=1e-5, atol=1e-9
    )


@pytest.mark.parametrize("method", ["T-Revision", "PTD-R-V"])
def test_reweighted_revision_teaches_the_slack_by_the_likelihood_alone(run, method):
    stage = stage_of(method, run, 2)
    with torch.no_grad():
        stage.slack += 0.05 * torch.randn(C, C, generator=new_generator(3))
    batch, logits = batch_of()
    (loss,) = stage.losses(batch, [logits])
    to_logits, to_slack = torch.autograd.grad(loss, [logits, stage.slack])
    slack = stage.slack.detach().clone().requires_grad_()
    probability = noisy_probability(run, batch, logits.detach(), slack)
    likelihood = torch.autograd.grad(-probability.log().mean(), slack)[0]
    torch.testing.assert_close(to_slack, likelihood, rtol=1e-5, atol=1e-9)
    posterior = logits.detach().softmax(1)
    picked = posterior.gather(1, batch.labels[:, None])[:, 0]
    importance = (picked / probability.detach())[:, None]
    expected = importance * (posterior - F.one_hot(batch.labels, C)) / len(logits)
    torch.testing.assert_close(to_logits, expected, rtol=1e-5, atol=1e-9)


def test_reweighted_revision_by_its_own_loss_attaches_the_weight(run):
    stage = stage_of("PTD-R-V", run, 2, slack_loss="own")
    batch, logits = batch_of()
    (loss,) = stage.losses(batch, [logits])
    picked = logits.softmax(1).gather(1, batch.labels[:, None])[:, 0]
    slack = torch.zeros(C, C, dtype=torch.float64, requires_grad=True)
    expected = -(picked / noisy_probability(run, batch, logits, slack) * picked.log()).mean()
    torch.testing.assert_close(
        torch.autograd.grad(loss, [logits, stage.slack]),
        torch.autograd.grad(expected, [logits, slack]),
        rtol=1e-5,
        atol=1e-9,
    )


def test_the_slack_has_a_learning_rate_of_its_own(run):
    stage = stage_of("PTD-F-V", run, 2, revision_lr=5e-7, slack_lr=1e-4)
    ((parameters, schedule),) = stage.parameter_groups()
    assert parameters == [stage.slack]
    assert (stage.schedule.lr, schedule.lr) == (5e-7, 1e-4)


@pytest.mark.parametrize(
    ("rate", "start"), [(0.3, "best"), (0.4, "fresh"), (0.5, "fresh"), (-1.0, "fresh")]
)
def test_the_network_starts_fresh_at_high_or_unknown_noise(rate, start):
    assert TrainWithTransition(Settings(rate=rate), "reweight").start == start
    assert TrainWithTransition(Settings(rate=rate, start="warm"), "reweight").start == "best"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz", samples=3000)


def test_the_transition_is_estimated_from_anchors(clusters):
    """Pairwise noise has one known matrix; its estimate comes near it, and helps."""
    accuracies = {}
    for method in ("CE", "Forward-band", "PTD-F"):
        settings = quick_settings(
            clusters, method=method, rate=0.45, epochs=8, milestones=(6,), warm_up_epochs=8
        )
        problem = load_problem(settings)
        trainer = Trainer(settings, problem.data, CPU.device, observer=CleanReference(problem))
        trainer.train()
        accuracies[method] = trainer.last.observed["test_accuracy"]
        if method != "CE":
            true = 0.55 * torch.eye(4) + 0.45 * torch.eye(4).roll(1, 1)
            found = trainer.outputs.estimate
            estimated = (found.weights.mean(0)[:, None, None] * found.parts).sum(0)
            assert (estimated - true).abs().max() < 0.15
    assert accuracies["Forward-band"] > accuracies["CE"] + 2
    assert accuracies["PTD-F"] > accuracies["CE"] + 2


def test_the_optimiser_lives_through_the_epochs_of_a_stage(clusters, monkeypatch):
    from ptd_ext.engine.stage.optim import Schedule

    built, build = [], Schedule.build
    monkeypatch.setattr(Schedule, "build", lambda self, p: built.append(self) or build(self, p))
    settings = quick_settings(clusters, method="T-Revision")
    Trainer(settings, load_problem(settings).data, CPU.device).train()
    assert len(built) == 4  # warm-up, training, and network and ΔT in revision


def test_validation_is_in_evaluation_mode(clusters):
    settings = quick_settings(clusters, method="CE")
    trainer = Trainer(settings, load_problem(settings).data, CPU.device)
    modes = []

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(8, 4)

        def forward(self, x):
            modes.append((len(x), self.training))
            return x, self.last(x)

    trainer._network = lambda *_: Network()
    trainer.train()
    assert {training for size, training in modes if size <= settings.batch_size and training}
    assert not any(training for size, training in modes if size in (200, 300))


@pytest.mark.slow
def test_all_methods_run_and_are_named(clusters, tmp_path):
    """The paper's fourteen methods and those that it does not have."""
    assert len([m for m in METHODS.values() if m.published]) == 14
    for method in METHODS:
        result = train(quick_settings(clusters, method=method), tmp_path / method, CPU)
        assert result["test_accuracy"] > 60, method


@pytest.mark.parametrize("method", ["PTD-F", "PTD-R"])
def test_verified_rows_are_learned_as_what_they_are(run, method):
    """-log g_y T_yȳ(x), or cross entropy with y; rows of none of the classes do not count."""
    batch, logits = batch_of(6)
    codes = torch.full((N,), -1)
    codes[batch.ids[:4]] = torch.tensor([0, 1, 2, 3])
    codes[batch.ids[4]] = -3
    run.data.verified = codes
    (loss,) = stage_of(method, run, 1).losses(batch, [logits])
    g, t = logits.softmax(1), run.outputs.estimate
    matrices = torch.einsum("nr,rij->nij", t.weights[batch.ids], t.parts)
    rows, true = torch.arange(4), torch.arange(4)
    known = -g[rows, true].log()
    unknown = noisy_probability(run, batch, logits)[5]
    if method == "PTD-F":
        known = known - matrices[rows, true, batch.labels[:4]].log()
        last = -unknown.log()
    else:
        weight = (g[5, batch.labels[5]] / unknown).detach()
        last = -weight * g[5, batch.labels[5]].log()
    expected = (known.sum() + last) / 5
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, expected)),
                               rtol=1e-5, atol=1e-6)  # fmt: skip
