"""TransitionEM over two processes, each with batches of its own: counts are summed."""

import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from random_numbers import new_generator

import ptd_ext

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")
SAMPLES, CLASSES = 130, 4


def data():
    g = new_generator(0)
    logits = 2 * torch.randn(SAMPLES, CLASSES, generator=g)
    return logits, torch.randint(CLASSES, (SAMPLES,), generator=g)


def work(index, file, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=index, world_size=2)
    logits, labels = data()
    mine = slice(0, 50) if index == 0 else slice(50, None)
    em = ptd_ext.TransitionEM(labels, 0.3)
    for step in range(3):
        em(logits.roll(step, 1)[mine], labels[mine])
    torch.save({"joint": em.joint, "seen": em.seen}, f"{out}{index}")
    dist.destroy_process_group()


@pytest.mark.slow
def test_counts_are_those_of_one_process(tmp_path):
    out = tmp_path / "rank"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(i), tmp_path / "store", out], env=environment
        )
        for i in range(2)
    ]
    assert [process.wait() for process in ranks] == [0, 0]
    first, second = (torch.load(f"{out}{i}") for i in range(2))
    logits, labels = data()
    alone = ptd_ext.TransitionEM(labels, 0.3)
    for step in range(3):
        alone(logits.roll(step, 1), labels)
    assert torch.equal(first["joint"], second["joint"])
    assert first["seen"] == alone.seen == 3 * SAMPLES
    torch.testing.assert_close(first["joint"], alone.joint)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], sys.argv[3])
