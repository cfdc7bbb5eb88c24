"""SimplexNMF over several processes: the same as in one."""

import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from nmf.test_estimator import mixtures

from ptd_ext import SimplexNMF

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")
OPTIONS = {"random_state": 0, "max_iter": 8, "tol": 0, "n_init": 2}


def work(index, file, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=index, world_size=2)
    x, _ = mixtures(rows=501, noise=0.2)
    mine = x[:170] if index == 0 else x[170:]
    # Each has a seed of its own: the first rank's counts.
    model = SimplexNMF(4, **(OPTIONS | {"random_state": index}), process_group="world")
    weights = model.fit_transform(mine if index else lambda: iter(mine.split(60)))
    online = SimplexNMF(4, random_state=0, process_group="world").partial_fit(mine)
    result = {"weights": weights, "parts": model.components_, "online": online.components_}
    torch.save(result | {"error": model.reconstruction_err_}, f"{out}{index}")
    dist.destroy_process_group()


@pytest.mark.slow
def test_sharded_is_unsharded(tmp_path):
    x, _ = mixtures(rows=501, noise=0.2)
    out = tmp_path / "rank"
    command = [sys.executable, __file__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [
        subprocess.Popen([*command, str(i), tmp_path / "store", out], env=environment)
        for i in range(2)
    ]
    assert [process.wait() for process in ranks] == [0, 0]
    first, second = (torch.load(f"{out}{i}") for i in range(2))
    alone = SimplexNMF(4, **OPTIONS)
    weights = alone.fit_transform(x)
    assert torch.equal(first["parts"], second["parts"])
    near = {"rtol": 0, "atol": 1e-9}
    torch.testing.assert_close(first["parts"], alone.components_, **near)
    torch.testing.assert_close(torch.cat([first["weights"], second["weights"]]), weights, **near)
    assert first["error"] == pytest.approx(alone.reconstruction_err_)
    online = SimplexNMF(4, random_state=0).partial_fit(x)
    torch.testing.assert_close(first["online"], online.components_, **near)
    torch.testing.assert_close(second["online"], online.components_, **near)


if __name__ == "__main__":  # one rank
    work(int(sys.argv[1]), *sys.argv[2:])
