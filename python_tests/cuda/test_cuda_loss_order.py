"""The transition losses on CUDA, emulated: any layout of the inputs and any order of threads."""

import math
import mmap
from dataclasses import replace

import pytest
import torch
from cuda_cases import (
    NAMES,
    apart,
    batch_of,
    check_loss,
    check_posterior,
    few_labels,
    off_a_boundary,
    run_loss,
    run_posterior,
    same,
)
from emulator.harness import compiler
from random_numbers import new_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

CLASSES = (10, 36, 130)


def spaced(labels):
    return torch.stack([labels, labels + 1000], 1)[:, 0]


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_strides(c, dtype):
    batch = batch_of(9, c, 3, 0.1, dtype)
    batch.logits, batch.weights = apart(batch.logits), apart(batch.weights)
    batch.slack = batch.slack.t()
    batch.labels = spaced(batch.labels)
    check_loss(batch)
    batch.labels = batch.labels.int()
    batch.logits = batch.logits.t().contiguous().t()
    check_loss(batch)


# Each has all strides but one of the layout by column, which the kernels read as it is.
ALMOST_BY_COLUMN = {
    "spaced columns": lambda wide: wide[::2],
    "the same part": lambda wide: wide[: len(wide) // 2, :1],
    "the same row": lambda wide: wide[: len(wide) // 2, :, :1],
}


@pytest.mark.parametrize("kind", ALMOST_BY_COLUMN)
@pytest.mark.parametrize(("c", "r"), [(4, 4), (10, 3), (36, 2)])
def test_strides_of_parts(kind, c, r):
    batch = batch_of(9, c, r, 0.02)
    wide = torch.full((2 * c, r, c), math.nan)
    part = ALMOST_BY_COLUMN[kind](wide)  # in memory as [k, j, i]
    part.copy_(batch.parts.permute(2, 0, 1)[:, : part.shape[1], : part.shape[2]])
    batch.parts = part.expand(c, r, c).permute(1, 2, 0)
    differ = [a != b for a, b in zip(batch.parts.stride(), (c, 1, r * c), strict=True)]
    assert sum(differ) == 1
    check_loss(batch, reduction="none")
    check_posterior(batch, wanted=("logits",))


@pytest.mark.parametrize("c", [12, *CLASSES])
def test_offset_of_one_number(c):
    """Rows without gaps that start off a 16-byte boundary."""
    batch = batch_of(19, c, 4)
    batch.logits, batch.weights = off_a_boundary(batch.logits), off_a_boundary(batch.weights)
    check_loss(batch, wanted=("logits",))


@pytest.mark.parametrize("layout", [torch.clone, apart, off_a_boundary])
@pytest.mark.parametrize("r", [1, 7, 16, 19, 20])
@pytest.mark.parametrize(("n", "c"), [(0, 10), (1, 10), (17, 9), (67, 10)])
def test_layouts_of_weights_and_labels(n, c, r, layout):
    batch = batch_of(n, c, r, 0.02, seed=13)
    batch.weights = layout(batch.weights)
    check_loss(batch, wanted=("logits", "slack"), reduction="none")
    batch.labels = batch.labels.int()
    check_posterior(batch, wanted=())
    batch.labels = spaced(batch.labels)
    check_posterior(batch, wanted=())


@pytest.mark.parametrize("c", [4, 36])
@pytest.mark.parametrize("stride", [131_068, 131_072])
def test_rows_far_apart(stride, c):
    """The strides are such that 4096 rows lie just within 2^31 bytes, and just not."""
    batch = few_labels(5, c, 3)
    logits = torch.empty(5, stride)[:, :c].copy_(batch.logits)
    check_loss(replace(batch, logits=logits), wanted=("logits",))


@pytest.mark.parametrize("c", [4, 36])
def test_rows_more_than_32_bits_apart(c):
    """The rows are in reserved memory, of which nothing else is ever touched."""
    stride = 2**31 + 1
    batch = few_labels(2, c, 3, dtype=torch.float16)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = torch.frombuffer(mmap.mmap(-1, 4 * stride, flags=flags), dtype=torch.float16)
    logits = memory.as_strided((2, c), (stride, 1)).copy_(batch.logits)
    check_loss(replace(batch, logits=logits), wanted=("logits",))


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("slack", [None, 0.1])
def test_threads_that_give_way_anywhere(c, slack):
    """Threads also switch between barriers, so that a missing barrier would show."""
    batch = batch_of(40, c, 3, slack)
    same(run_loss(batch, seed=3, switch_probability=0.05), run_loss(batch))


@pytest.mark.parametrize(("n", "c"), [(700, 10), (150, 20), (70, 130)])
def test_results_repeat(n, c):
    """The order of blocks and threads, which a seed sets here, changes nothing, to the bit."""
    batch = batch_of(n, c, 2, 0.05)
    first, second = (run_loss(batch, wanted=NAMES, seed=seed) for seed in (1, 2))
    same(first, second)


@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("c", [20, 37])
def test_samples_of_a_label_in_any_order(c, slack):
    batch = few_labels(150, c, 3, slack)
    batch.logits[3, 5] += 3e6
    grad = torch.randn(150, c, generator=new_generator(c))
    first, second = (
        (
            run_loss(batch, wanted=NAMES, reduction="none", seed=seed),
            run_posterior(batch, grad, wanted=NAMES, seed=seed),
        )
        for seed in (1, 2)
    )
    for one, other in zip(first, second, strict=True):
        same(one, other)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("r", [7, 20])
def test_copies_of_a_sample_come_out_the_same(r, strided):
    """They agree to the bit, also in a warp that is not full."""
    for seed in range(3):
        batch = batch_of(32 + 5, 10, r, 0.003, seed=seed)
        for tensor in (batch.logits, batch.labels, batch.weights):
            tensor[1:] = tensor[0].clone()
        if strided:
            batch.weights = batch.weights.repeat_interleave(2, 1)[:, ::2]
        loss, _ = run_loss(batch, reduction="none", wanted=())
        posterior, _ = run_posterior(batch)
        assert (loss == loss[0]).all()
        assert (posterior == posterior[0]).all()


class TestMean:
    """Means over many blocks have the same bits, whichever block is the last."""

    @pytest.mark.parametrize(("n", "c"), [(700, 3), (2500, 10), (150, 40), (70, 130)])
    def test_order_of_the_sum(self, n, c):
        """Losses differ so much in size that the order of a plain sum would change its bits."""
        batch = batch_of(n, c, 2)
        scale = 10.0 ** torch.randint(-4, 8, (n, 1), generator=new_generator(n))
        batch.logits *= scale
        class_weight = torch.rand(c, generator=new_generator(1))
        runs = [{"seed": 0}, {"seed": 1}, {"seed": 2, "switch_probability": 0.05}]
        for reduction in ("mean", "sum"):
            options = {"class_weight": class_weight, "reduction": reduction, "wanted": ()}
            found = {run_loss(batch, **options, **run)[0].item() for run in runs}
            assert len(found) == 1
            check_loss(batch, **options)

    @pytest.mark.parametrize("weight", [0.0, 3.0, 1e-40, math.inf, math.nan])
    @pytest.mark.parametrize("n", [1, 900])
    def test_class_weights_that_are_not_numbers(self, n, weight):
        batch = batch_of(n, 5, 2)
        batch.labels[:] = 1
        class_weight = torch.full((5,), weight)
        for reduction in ("mean", "sum"):
            options = {"class_weight": class_weight, "reduction": reduction, "wanted": ()}
            loss, _ = run_loss(batch, **options)
            terms = run_loss(batch, class_weight=class_weight, reduction="none", wanted=())[0]
            total = class_weight.double()[batch.labels].sum()
            expected = terms.double().sum() / (total if reduction == "mean" else 1)
            rtol = 1e-5 if weight != 1e-40 else 1e-3  # 1e-40 is subnormal and has few digits
            torch.testing.assert_close(loss.double(), expected, rtol=rtol, atol=0, equal_nan=True)

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_bits_of_a_loss_that_is_not_a_number(self, bad):
        batch = batch_of(900, 5, 2)
        batch.logits[[7, 400], 1] = bad
        batch.logits[11, 2] = math.nan
        found = [run_loss(batch, wanted=(), seed=seed)[0] for seed in range(3)]
        assert found[0].isnan()
        assert len({loss.view(torch.int32).item() for loss in found}) == 1


@pytest.mark.parametrize(("n", "c"), [(700, 10), (70, 36), (30, 130)])
@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_that_run_interleaved(n, c, seed):
    """Blocks exchange nothing but what a fence has published; the results are the same bits."""
    batch = batch_of(n, c, 2, 0.05)
    expected = run_loss(batch, wanted=NAMES)
    same(run_loss(batch, wanted=NAMES, seed=seed, interleave=4), expected)
    grad = torch.randn(n, c, generator=new_generator(c))
    expected = run_posterior(batch, grad, wanted=NAMES)
    same(run_posterior(batch, grad, wanted=NAMES, seed=seed, interleave=4), expected)
