"""An observer that knows nothing."""

import torch

from ptd_ext.engine.stage.observer import Observer


def test_nothing_is_asked_of_the_network():
    observer = Observer()
    observer.to(torch.device("meta"), True)

    def logits_of(inputs):
        raise AssertionError("rows were predicted")

    assert observer.figures(logits_of) == {}
    assert observer.anchor_accuracy([torch.tensor([0])]) is None
