"""SimplexNMF: where its data may come from, what comes back, and what it rejects."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from nmf.test_estimator import mixtures

from ptd_ext import SimplexNMF
from ptd_ext.nmf._data import open_rows

OPTIONS = {"random_state": 0, "max_iter": 12, "tol": 0}


def fitted(data, **options):
    model = SimplexNMF(4, **(OPTIONS | options))
    return model, model.fit_transform(data)


def assert_same_fit(one, other, tolerance=1e-9):
    (model, weights), (other_model, other_weights) = one, other
    for a, b in ((weights, other_weights), (model.components_, other_model.components_)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=tolerance, rtol=0)
    assert model.reconstruction_err_ == pytest.approx(other_model.reconstruction_err_)


def test_kinds():
    x, _ = mixtures()
    tensors, arrays = fitted(x), fitted(x.numpy())
    assert_same_fit(tensors, arrays, 0)
    for model, weights, kind in ((*tensors, torch.Tensor), (*arrays, np.ndarray)):
        assert type(weights) is type(model.components_) is kind
        assert type(model.reconstruction_err_) is float
        assert (model.n_iter_, model.n_features_in_) == (12, 12)
        assert model.components_.shape == (4, 12)
    # A model takes either kind, whatever it was fitted to.
    model = arrays[0]
    assert isinstance(model.transform(x), torch.Tensor)
    assert isinstance(model.transform(x.numpy()), np.ndarray)
    assert isinstance(model.inverse_transform(arrays[1]), np.ndarray)
    assert model.transform(x[:0]).shape == (0, 4)


def test_types():
    x, _ = mixtures()
    for given, kept in (
        (x, torch.float64),
        (x.float(), torch.float32),
        (x.half(), torch.float32),
        ((10 * x).long(), torch.float32),
    ):
        model, weights = fitted(given)
        assert model.components_.dtype == weights.dtype == kept
    assert fitted(x.numpy().astype(np.int16))[1].dtype == np.float32
    assert fitted(x.numpy().astype(np.float16))[1].dtype == np.float32
    leaf = x.clone().requires_grad_()
    assert not fitted(leaf)[1].requires_grad


def test_layouts_and_read_only_arrays():
    x, _ = mixtures()
    expected = fitted(x)
    assert_same_fit(fitted(x.T.contiguous().T), expected)
    array = x.numpy()
    assert_same_fit(fitted(np.asfortranarray(array)), expected)
    assert_same_fit(fitted(array[::-1][::-1]), expected)
    locked = array.copy()
    locked.flags.writeable = False
    assert_same_fit(fitted(locked), expected)
    assert_same_fit(fitted(array.tolist()), expected)


@pytest.mark.parametrize("n_init", [1, 3])
def test_streamed_is_in_memory(tmp_path, n_init):
    x, _ = mixtures(noise=0.2)
    x = x.numpy()
    expected = fitted(x, n_init=n_init)
    file = tmp_path / "x.npy"
    np.save(file, x)
    batches = np.array_split(x, 7)
    sources = {
        "small batches": (x, {"batch_size": 33}),
        "memory map": (np.load(file, mmap_mode="r"), {"batch_size": 64}),
        "part of a memory map": (np.load(file, mmap_mode="c")[0:400], {"batch_size": 64}),
        "list of batches": (batches, {}),
        "function": (lambda: iter(batches), {}),
        "loader": (torch.utils.data.DataLoader(torch.from_numpy(x), batch_size=50), {}),
        "pairs": ([(batch, None) for batch in batches], {}),
    }
    for name, (source, options) in sources.items():
        found = fitted(source, n_init=n_init, **options)
        assert_same_fit(found, expected)
        assert isinstance(found[1], torch.Tensor) == (name == "loader")
        np.testing.assert_allclose(
            np.asarray(found[0].transform(source)), expected[0].transform(x), atol=1e-9
        )


@pytest.mark.slow
def test_memory_map_leaves_memory(tmp_path):
    """The pages of a memory map that were read are given back."""
    size = 1 << 26
    file = tmp_path / "x.npy"
    np.lib.format.open_memmap(file, "w+", np.float32, (size // 4 // 64, 64))[:] = 1
    code = f"""
import numpy as np, torch, ptd_ext
def resident():
    status = open("/proc/self/status").read()
    return int(status.split("RssFile:")[1].split()[0]) * 1024
x = np.load({str(file)!r}, mmap_mode="r")
before = resident()
ptd_ext.SimplexNMF(2, max_iter=1, random_state=0, transform_steps=1, batch_size=4096).fit(x)
print(resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < size / 2


def test_errors():
    x, _ = mixtures()
    for data, kind, message in (
        (x[0], ValueError, r"X must be \[N, D\] with D at least 1; got \[12\]"),
        (x[:, :0], ValueError, r"X must be \[N, D\] with D at least 1; got \[400, 0\]"),
        (x[:0], ValueError, "X has no rows"),
        (lambda: iter([]), ValueError, "X has no batches"),
        (iter([x]), TypeError, "X can be iterated over only once: pass a function"),
        (3, TypeError, "X must be a tensor, an array.*got int"),
        ([x, x[:, :3]], ValueError, "Every batch of X must have 12 columns.*got 3"),
        (torch.where(x == x.max(), torch.nan, x), ValueError, "X holds NaN or infinity"),
    ):
        with pytest.raises(kind, match=message):
            SimplexNMF(4).fit(data)
    for options, message in (
        ({"n_parts": 0}, "n_parts must be an integer from 1 to 256; got 0"),
        ({"n_parts": 257}, "n_parts must be an integer from 1 to 256; got 257"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
        ({"n_init": 0}, "n_init must be an integer >= 1; got 0"),
        ({"tol": -1.0}, "tol must be at least 0; got -1.0"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
        ({"forget_factor": 2.0}, "forget_factor must be from 0 to 1; got 2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            SimplexNMF(**({"n_parts": 4} | options)).fit(x)
    model, _ = fitted(x)
    with pytest.raises(ValueError, match=r"X must have 12 columns.*got 5"):
        model.transform(x[:, :5])
    with pytest.raises(ValueError, match="X must have a column for each of 4 parts; got 12"):
        model.inverse_transform(x)
    with pytest.raises(RuntimeError, match=r"torch.distributed is not initialised"):
        fitted(x, process_group="world")


def test_rows_that_change_between_passes():
    x, _ = mixtures()
    lengths = iter(range(400, 300, -10))
    with pytest.raises(ValueError, match="every pass must give the same rows"):
        SimplexNMF(4).fit(lambda: iter([x[: next(lengths)]]))


def test_sparse_data_are_rejected():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="X is sparse"):
        SimplexNMF(2).fit(sparse.eye(4).tocsr())


def test_interrupt_keeps_what_there_is():
    x, _ = mixtures()
    passes = []

    def batches():
        passes.append(len(passes))
        yield x[:200]
        if len(passes) == 8:
            raise KeyboardInterrupt
        yield x[200:]

    model = SimplexNMF(4, **OPTIONS)
    with pytest.warns(
        UserWarning, match="Interrupted: SimplexNMF keeps the result of [0-9] iterations"
    ):
        weights = model.fit_transform(batches)
    assert 0 < model.n_iter_ < 12
    assert model.reconstruction_err_ == model.objectives_[-1] ** 0.5
    torch.testing.assert_close(weights.sum(-1), torch.ones(400, dtype=torch.float64))
    # The error reported is an upper bound of that of the weights that are there.
    assert (x - weights @ model.components_).norm() <= model.reconstruction_err_ * (1 + 1e-9)


def test_progress(monkeypatch, capsys):
    x, _ = mixtures()
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm: .*ptd_ext\[all\]"):
        fitted(x, progress=True)
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    fitted(x, progress=True)
    assert "SimplexNMF" in capsys.readouterr().err
    SimplexNMF(4, max_iter=2).fit(x)
    assert capsys.readouterr() == ("", "")


def test_params():
    model = SimplexNMF(4, tol=0.1)
    assert model.get_params()["tol"] == 0.1
    assert model.set_params(n_parts=5, max_iter=3) is model
    assert (model.n_parts, model.max_iter) == (5, 3)
    assert repr(model) == "SimplexNMF(n_parts=5, max_iter=3, tol=0.1)"
    with pytest.raises(ValueError, match="SimplexNMF has no parameter 'parts'; it has n_parts"):
        model.set_params(parts=3)


def test_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = mixtures()[0].numpy()
    model = SimplexNMF(4, **OPTIONS).fit(x)
    copy = sklearn.base.clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")
    pipeline = make_pipeline(StandardScaler(), SimplexNMF(4, **OPTIONS))
    weights = pipeline.fit_transform(x)
    np.testing.assert_allclose(pipeline.transform(x), weights, atol=1e-4)


def test_rows_are_taken_from_any_batches():
    x = torch.arange(60.0).view(20, 3)
    wanted = torch.tensor([0, 6, 7, 19])
    for data in (x, x.numpy(), lambda: x.split(7), list(x.split(6))):
        rows = open_rows(data, 8 if isinstance(data, torch.Tensor) else None)
        assert (rows.count(), rows.n_features, rows.dtype) == (20, 3, torch.float32)
        assert torch.equal(rows.take(wanted), x[wanted])
        assert torch.equal(torch.cat([batch for _, batch in rows.batches()]), x)
