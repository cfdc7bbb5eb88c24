"""Samples of a split, fetched by position."""

import hashlib

import pytest
import torch

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing

CPU = torch.device("cpu")
IMAGES = torch.arange(5 * 12, dtype=torch.uint8).reshape(5, 3, 2, 2)


def checksum(inputs):
    found = hashlib.sha256()
    inputs.add_to(found)
    return found.hexdigest()


def test_rows_at_positions_are_gathered_once():
    preprocessing, stored = Preprocessing.fit(IMAGES)
    inputs = Inputs(stored, torch.tensor([4, 0, 2]), preprocessing)
    assert len(inputs) == 3
    assert inputs.positions is None
    assert inputs.where() == [0, 1, 2]
    assert torch.equal(inputs.stored[1], IMAGES[0])
    found = inputs.fetch(torch.tensor([2, 0]), CPU)
    torch.testing.assert_close(found, preprocessing(IMAGES[[2, 4]]))
    assert inputs.sample_numbers == 12
    assert not inputs.slow


@pytest.mark.parametrize("channels_last", [True, False])
def test_the_memory_format_is_kept_by_a_copy(channels_last):
    preprocessing, stored = Preprocessing.fit(IMAGES)
    inputs = Inputs(stored, None, preprocessing, channels_last=channels_last).to(CPU)
    found = inputs.fetch(torch.arange(5), CPU)
    assert found.is_contiguous(memory_format=torch.channels_last) is channels_last


def test_image_files_stay_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    names = [f"{number}.png" for number in range(4)]
    for number, name in enumerate(names):
        image.new("RGB", (8, 8), (10 * number, 0, 0)).save(tmp_path / name)
    plain = Preprocessing.for_images([3, 8, 8], None, None, as_bytes=True, files=True)
    inputs = Inputs(ImageFiles(tmp_path, names, 8), torch.tensor([3, 1]), plain)
    assert inputs.slow
    assert inputs.to(torch.device("meta")).device == CPU
    assert inputs.where() == [3, 1]
    assert inputs.fetch(torch.tensor([1, 0]), CPU)[:, 0, 0, 0].tolist() == [10, 30]
    assert inputs.sample_numbers == 3 * 8 * 8
    before = checksum(inputs)
    image.new("RGB", (8, 8), (10, 0, 1)).save(tmp_path / "1.png")
    assert checksum(inputs) != before


def test_the_checksum_is_of_rows_type_shape_and_scale():
    plain = Preprocessing("table", torch.Size([2]), 2)
    rows = torch.ones(3, 2)
    scaled = Preprocessing("table", torch.Size([2]), 2, torch.ones(2), torch.ones(2))
    others = [
        Inputs(rows, torch.tensor([0, 1]), plain),
        Inputs(rows.view(2, 3), None, plain),
        Inputs(rows.view(torch.int32), None, plain),
        Inputs(rows, None, scaled),
        Inputs(rows + 1, None, plain),
    ]
    found = [checksum(each) for each in (Inputs(rows, None, plain), *others)]
    assert len(set(found)) == 6
    assert checksum(Inputs(rows, torch.tensor([2, 1, 0]), plain)) == found[0]
