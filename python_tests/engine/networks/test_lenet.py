"""LeNet-5 on images of other sizes than 28 × 28."""

import pytest
import torch

from ptd_ext.engine.networks import check
from ptd_ext.engine.networks.lenet import SMALLEST, LeNet5


@pytest.mark.parametrize("shape", [(1, 12, 20), (3, 20, 12)])
def test_images_that_are_not_square_and_two_classes(shape):
    network = LeNet5(2, torch.Size(shape))
    assert check(network, torch.zeros(3, *shape), 2) == 84


def test_the_smallest_image():
    network = LeNet5(3, torch.Size((1, SMALLEST, SMALLEST)))
    assert network.fc1.in_features == 16
    with pytest.raises(RuntimeError):
        network(torch.zeros(1, 1, SMALLEST - 1, SMALLEST - 1))
