"""The network for messages: any length, pooling, frozen word vectors."""

import pytest
import torch
from torch import nn

from ptd_ext.engine.networks import build, check
from ptd_ext.engine.networks.news_conv import NewsConv


def news_conv(words=40, **options):
    return build("news_conv", 20, inputs=(30,), embedding=torch.randn(words, 6), **options)


@pytest.mark.parametrize("length", [1, 4, 30, 1000])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_news_conv(length, kind):
    network = news_conv()
    tokens = torch.randint(0, 40, (3, length), dtype=kind)
    assert check(network, tokens, 20) == 128
    representation, logits = network(tokens)
    assert (representation >= 0).all()
    assert torch.equal(logits, network.fc(representation))
    assert not network.embedding.weight.requires_grad


def test_news_conv_pools_as_if_after_relu():
    network = news_conv()
    x = network.embedding(torch.arange(40)[None]).transpose(1, 2)
    for conv in (network.conv1, network.conv2):
        x = nn.functional.max_pool1d(conv(x).relu(), 5, ceil_mode=True)
    assert torch.equal(network(torch.arange(40)[None])[0], network.conv3(x).relu().amax(2))


def test_networks_do_not_share_word_vectors():
    vectors = torch.randn(4, 3)
    first, second = NewsConv(2, vectors), NewsConv(2, vectors)
    second.embedding.weight.data.zero_()
    assert torch.equal(first.embedding.weight, vectors)
