"""Threads by the work, and the caller's number of them as it was."""

import pytest
import torch
from training_cases import CPU, quick_settings, write_clusters

import ptd_ext
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.run.experiment import train
from ptd_ext.utils import threads


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def used(monkeypatch):
    """The numbers of threads that were set."""
    numbers = []
    setter = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (numbers.append(n), setter(n)))
    return numbers


def test_threads_for(four_threads):
    assert [threads.threads_for(work) for work in (0, 1e3, 3e7, 6e7, 1e12)] == [1, 1, 1, 3, 4]
    torch.set_num_threads(2)  # the caller's word is final
    assert threads.threads_for(1e12) == 2


@pytest.mark.parametrize(("cores", "most"), [(None, 256), (2, 256), (100, 400)])
def test_more_threads_than_a_process_can_start(monkeypatch, cores, most):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    threads.check_threads("threads", most)
    with pytest.raises(ValueError, match=f"threads must be at most {most} on this machine"):
        threads.check_threads("threads", most + 1)


def test_using_restores_after_errors(four_threads):
    with pytest.raises(ValueError, match="2 threads"), threads.using(2):
        raise ValueError(f"{torch.get_num_threads()} threads")
    assert torch.get_num_threads() == 4
    with threads.using(6):
        assert torch.get_num_threads() == 6
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("rows", "features", "expected"), [(300, 20, 1), (20_000, 256, 4)])
def test_factorisation(rows, features, expected, four_threads, used):
    x = torch.rand(rows, features)
    model = ptd_ext.SimplexNMF(10, max_iter=1, random_state=0, batch_size=rows).fit(x)
    model.transform(x)
    model.partial_fit(x)
    assert set(used) == (set() if expected == 4 else {expected, 4})
    assert torch.get_num_threads() == 4


def test_interrupted_factorisation(four_threads, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ptd_ext.nmf._fit.Fit._first_iteration", interrupt)
    with pytest.warns(UserWarning, match="Interrupted"):
        ptd_ext.SimplexNMF(3, random_state=0).fit(torch.rand(50, 4))
    assert torch.get_num_threads() == 4


def test_part_transitions(four_threads, used):
    posterior = torch.rand(400, 3).softmax(1)
    anchors = ptd_ext.find_anchors(posterior, band=(50, 99))
    ptd_ext.fit_part_transitions(torch.rand(400, 4).softmax(1), posterior, anchors)
    assert used == [1, 4]


def test_training(four_threads, used, tmp_path):
    """A small network in small batches has one thread, whatever torch would take."""
    data = write_clusters(tmp_path / "clusters.npz", samples=100)
    small = quick_settings(data, "CE", threads=0, epochs=1)
    large = small.replace(batch_size=100_000)
    problem = load_problem(small)
    trainers = [Trainer(each, problem.data, CPU.device) for each in (small, large)]
    assert [each.worthwhile_threads() for each in trainers] == [1, 4]
    train(small, tmp_path / "small", CPU)
    assert used == [1, 4]
    train(small.replace(threads=3), tmp_path / "three", CPU)
    assert used == [1, 4, 3, 4]
