"""labels.csv and report.html of a run: every row of the caller's data, under its own id."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training_cases import CPU, quick_values

from ptd_ext import TrainedRun
from ptd_ext.cli import main
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.run.experiment import _approximation_error, train
from ptd_ext.label_issues.findings import COLUMNS
from ptd_ext.noise import pairwise_noise

pytest.importorskip("sklearn")

NAMES = np.array(["ant", "bee", "cat", "<b>dog</b>"])


def read(folder):
    with (folder / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def average_precision(wrong, score):
    hits = wrong[np.argsort(-score, kind="stable")]
    return (np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Rows on scales far apart, a third of the labels wrong, texts as labels and as ids."""
    generator = np.random.default_rng(0)
    true = generator.integers(4, size=500)
    x = 3 * generator.standard_normal((4, 8))[true] + generator.standard_normal((500, 8))
    x = x * 10.0 ** np.arange(-3, 5) + 1000
    given = pairwise_noise(torch.from_numpy(true), 0.3, random_state=0).noisy_labels.numpy()
    ids = np.array([f"row-{n * 7919 % 500}" for n in range(500)])
    path = tmp_path_factory.mktemp("own") / "own.npz"
    np.savez(path, x=x, y=NAMES[given], ids=ids)
    return path, x, true, given, ids


@pytest.fixture(scope="module")
def run(own, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    arguments = ["--dataset", "npz", "--data", str(own[0]), "--epochs", "12", "--threads", "1"]
    main(["train", *arguments, "--out", str(out), "--no-progress"])
    return out


def test_every_row_is_judged_under_its_own_id(own, run):
    _, _, true, given, ids = own
    rows = read(run)
    assert tuple(rows[0]) == COLUMNS
    assert [row["id"] for row in rows] == ids.tolist()
    assert [row["given_label"] for row in rows] == NAMES[given].tolist()
    quality = np.array([float(row["label_quality"]) for row in rows])
    assert average_precision(given != true, 1 - quality) > 0.95
    flagged = np.array([row["is_label_issue"] == "True" for row in rows])
    assert abs(flagged.mean() - (given != true).mean()) < 0.08
    suggested = np.array([row["suggested_label"] for row in rows])
    assert (suggested[flagged] == NAMES[true][flagged]).mean() > 0.9
    assert (suggested[~flagged] == NAMES[given][~flagged]).all()


def test_the_run_is_loaded_as_it_was(own, run):
    _, x, true, _, _ = own
    loaded = TrainedRun.load(run)
    assert loaded.classes.tolist() == sorted(NAMES)
    assert (loaded.predict(x) == NAMES[true]).mean() > 0.95
    probabilities = loaded.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    matrices = loaded.transition(x)
    assert matrices.shape == (500, 4, 4)
    np.testing.assert_allclose(matrices.sum(2), 1, rtol=1e-5)
    # The networks judge the rows, without the neighbours that take part in labels.csv.
    given = loaded.label_issues.given_label
    posterior = loaded.model.judge(x, given).posterior.numpy()
    quality = posterior[np.arange(500), np.searchsorted(loaded.classes, given)]
    assert average_precision(given != NAMES[true], 1 - quality) > 0.95


def test_the_findings_are_loaded_as_they_were(run, tmp_path):
    found = TrainedRun.load(run).label_issues
    assert found.to_csv(tmp_path / "again.csv").read_bytes() == (run / "labels.csv").read_bytes()
    assert found.noise_rate.overall.low < found.noise_rate.overall.estimate
    assert found.trusted
    page = found.report(tmp_path / "again.html").read_text()
    assert "training loss" in page


def test_the_page_shows_curves_samples_and_escaped_names(run):
    page = (run / "report.html").read_text()
    assert "given-label validation accuracy" in page
    assert "training loss" in page
    assert "&lt;b&gt;dog" in page
    assert "<b>dog" not in page
    assert "clean test" not in page


def test_a_warm_up_no_better_than_chance_finds_nothing(tmp_path, capsys):
    generator = np.random.default_rng(0)
    path = tmp_path / "random.npz"
    np.savez(path, x=generator.standard_normal((300, 5)), y=generator.integers(3, size=300))
    out = tmp_path / "run"
    given = quick_values(path, "PTD-L", noise="none")
    train(resolve(given, {}), out, CPU)
    assert "no better than chance cannot judge" in capsys.readouterr().out
    assert {row["is_label_issue"] for row in read(out)} == {"False"}
    assert not TrainedRun.load(out).label_issues.trusted


def test_a_clean_test_part_is_called_clean_and_not_judged(own, tmp_path, capsys):
    _, x, true, given, _ = own
    path = tmp_path / "own.npz"
    np.savez(path, x=x[:400], y=given[:400], x_test=x[400:], y_test=true[400:])
    quick = quick_values(path, "EM-F", noise="none", epochs=2)
    for name, extra, rows in (("printed", {"test_labels": "clean"}, 400), ("unsaid", {}, 500)):
        train(resolve({**quick, **extra}, {}), tmp_path / name, CPU)
        assert len(read(tmp_path / name)) == rows
        assert ("clean test" in capsys.readouterr().out) == (name == "printed")
        result = json.loads((tmp_path / name / "result.json").read_text())
        assert result["test_labels"] == ("clean" if name == "printed" else "given")


def test_true_labels_beside_the_given_ones(own, tmp_path, capsys):
    """Testing compares with the true labels; the given ones are judged."""
    _, x, true, given, _ = own
    np.savez(tmp_path / "own.npz", x=x, y=given, y_clean=true)
    quick = quick_values(tmp_path / "own.npz", "EM-F", noise="none", epochs=2)
    train(resolve(quick, {}), tmp_path / "run", CPU)
    assert "100 clean test samples" in capsys.readouterr().out
    assert [int(row["given_label"]) for row in read(tmp_path / "run")] == given.tolist()


def test_images_of_a_folder_are_named_by_their_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)
    for label, name in enumerate(("dark", "light")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = generator.integers(100, size=(16, 16, 3)) + 120 * label
            path = tmp_path / "photos" / name / f"{number}.png"
            image.fromarray(pixels.astype(np.uint8)).save(path)
    arguments = ["--dataset", "image_folder", "--data", str(tmp_path / "photos"), "--epochs", "4"]
    main(["train", *arguments, "--out", str(tmp_path / "run"), "--no-progress", "--threads", "1"])
    rows = read(tmp_path / "run")
    assert {row["id"] for row in rows} == {
        f"{c}/{n}.png" for c in ("dark", "light") for n in range(20)
    }
    assert all(row["id"].startswith(row["given_label"]) for row in rows)
    loaded = TrainedRun.load(tmp_path / "run")
    assert loaded.settings.network == "lenet5"
    files = [tmp_path / "photos" / row["id"] for row in rows]
    assert loaded.predict(files).tolist() == [row["given_label"] for row in rows]


def test_the_approximation_error_is_that_of_the_mean_of_the_networks():
    """Two networks that err in opposite directions err less together than the first alone."""
    labels, truth = torch.tensor([0, 1, 1]), torch.tensor([[0.8, 0.2], [0.3, 0.7]])

    def network(shift):
        parts = (truth + shift * torch.tensor([1.0, -1.0]))[None]
        matrix = SimpleNamespace(parts=parts, slack=None)
        return SimpleNamespace(required_transition=matrix, weights=lambda _: torch.ones(3, 1))

    model = SimpleNamespace(members=[network(0.1), network(-0.06)], has_transition=True)
    data = SimpleNamespace(train=None)
    problem = SimpleNamespace(noise_rows=truth[labels], train_clean=labels, data=data)
    assert _approximation_error(problem, model) == pytest.approx(0.04, abs=1e-6)
    model.members.pop()
    assert _approximation_error(problem, model) == pytest.approx(0.2, abs=1e-6)
    model.has_transition = False
    assert _approximation_error(problem, model) is None
