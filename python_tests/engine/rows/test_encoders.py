"""Embeddings of texts and images, a batch at a time."""

import sys

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows import encoders
from ptd_ext.engine.rows.encoders import check_encoder, encode, image_side
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.label_issues.samples import show_rows


def test_a_network_from_a_file_is_evaluated_not_trained(monkeypatch):
    network = torch.nn.Dropout()
    monkeypatch.setattr(encoders, "read_weights", lambda path: {"layer3.5.conv1.weight"})
    monkeypatch.setattr(encoders, "build", lambda name, classes, inputs: network)
    monkeypatch.setattr(encoders, "load_weights", lambda network, path: None)
    extract = encoders._resnet("weights.pt")
    assert not network.training
    assert torch.equal(extract(torch.ones(1, 8)), torch.ones(8))


@pytest.mark.parametrize(
    ("names", "network"),
    [
        ({"layer1.0.conv3.weight", "layer3.5.conv1.weight"}, "resnet50"),
        ({"layer3.5.conv1.weight"}, "resnet34"),
        (set(), "resnet18"),
    ],
)
def test_the_names_of_weights_tell_the_network(monkeypatch, names, network):
    built = []
    monkeypatch.setattr(encoders, "read_weights", lambda path: names)
    monkeypatch.setattr(
        encoders, "build", lambda name, *_, **__: built.append(name) or torch.nn.Identity()
    )
    monkeypatch.setattr(encoders, "load_weights", lambda network, path: None)
    encoders._resnet("weights.pt")
    assert built == [network]


def test_bytes_are_fractions_and_batches_small():
    seen = []

    def means(batch):
        seen.append((len(batch), batch.max().item()))
        return batch.mean((2, 3)).double().requires_grad_()

    found = encode(np.full((130, 3, 2, 2), 255, np.uint8), means)
    assert seen == [(64, 1), (64, 1), (2, 1)]
    assert torch.equal(found, torch.ones(130, 3))
    assert not found.requires_grad


def test_a_module_is_evaluated():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout()).train()
    assert torch.equal(encode(torch.ones(3, 1, 2, 2), network), torch.ones(3, 4))


@pytest.mark.parametrize(
    ("rows", "extractor", "message"),
    [
        (np.ones((9, 4)), len, r"takes images \[N, channels, height, width\]; X is \[9, 4\]"),
        (np.ones((9, 1, 2, 2)), lambda b: b, r"embeddings \[9, D\] of a batch; got \[9, 1, 2, 2\]"),
        (np.ones((9, 1, 2, 2)), lambda b: b[:, 0, 0] * 1j, "must return real numbers; it returns"),
        (np.ones((9, 1, 2, 2)), lambda b: b[1:, 0, 0], r"embeddings \[9, D\] .*; got \[8, 2\]"),
    ],
)
def test_other_shapes_are_rejected(rows, extractor, message):
    with pytest.raises(ValueError, match=message):
        encode(rows, extractor)


class Library:
    """Stands for timm or torchvision: a network of its own with sizes and moments."""

    side, mean, std = 6, (0.5, 0.25, 0.0), (0.5, 0.5, 1.0)

    def model(self, *_):
        network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1))
        return encoders._ImageModel(network, self.side, self.mean, self.std)


def test_images_are_resized_and_standardised_as_the_network_was_trained(monkeypatch):
    monkeypatch.setattr(encoders, "_image_model", Library().model)
    assert image_side("timm:any") == 6
    found = encode(np.full((3, 3, 4, 5), 255, np.uint8), "timm:any")
    assert torch.allclose(found, torch.tensor([[1.0, 1.5, 1.0]] * 3))
    grey = encode(np.full((2, 1, 6, 6), 0.5), "torchvision:any")
    assert torch.allclose(grey, torch.tensor([[0.0, 0.5, 0.5]] * 2))


@pytest.mark.parametrize(
    ("encoder", "side"),
    [(None, None), (len, None), ("weights.pt", 224), ("sentence-transformers:x", None)],
)
def test_the_side_of_images(encoder, side):
    assert image_side(encoder) == side


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (7, "encoder must be a function, a file of weights or LIBRARY:NAME; got int"),
        ("timmm:x", "sentence-transformers, timm, torchvision; got 'timmm:x', and there is no"),
        ("timm:", "got 'timm:', and there is no such file"),
    ],
)
def test_other_encoders_are_rejected(encoder, message):
    with pytest.raises(ValueError, match=message):
        check_encoder(encoder)
    check_encoder("timm:x")
    check_encoder(None)


def test_an_absent_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModuleNotFoundError, match="needs sentence-transformers: pip install"):
        encode(["a", "b"], "sentence-transformers:x")
    with pytest.raises(ModuleNotFoundError, match="encoder=timm:x needs timm: pip install timm"):
        encode(np.zeros((2, 3, 4, 4)), "timm:x")


def test_texts_are_for_text_models_only():
    with pytest.raises(ValueError, match="takes texts; X is of type ndarray"):
        encode(np.zeros((2, 3, 4, 4)), "sentence-transformers:x")
    with pytest.raises((ValueError, TypeError)):
        encode(["a", "b"], "timm:x")


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Empty caches, and no network."""
    for name in ("HF_HOME", "TORCH_HOME", "SENTENCE_TRANSFORMERS_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    torch.hub.set_dir(str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.slow
def test_torchvision_from_the_cache_and_from_a_path(offline):
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    network = models.mobilenet_v3_small().eval()
    url = models.get_model_weights("mobilenet_v3_small").DEFAULT.url
    cached = offline / "hub" / "checkpoints" / url.rpartition("/")[2]
    images = torch.rand(2, 3, 40, 40)
    with pytest.raises(ValueError, match=r"is in its cache, or a path; .* there is no file"):
        encode(images, "torchvision:mobilenet_v3_small")
    cached.parent.mkdir(parents=True)
    torch.save(network.state_dict(), cached)
    found = encode(images, "torchvision:mobilenet_v3_small")
    assert found.shape == (2, 1024)
    torch.save(network.state_dict(), offline / "own.pth")
    again = encode(images, f"torchvision:mobilenet_v3_small@{offline / 'own.pth'}")
    assert torch.equal(found, again)
    with pytest.raises(ValueError, match="'no_such' cannot be loaded"):
        encode(images, "torchvision:no_such")


@pytest.mark.slow
def test_timm_from_a_path(offline):
    timm = pytest.importorskip("timm")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network = timm.create_model("test_resnet.r160_in1k").eval()
    path = offline / "own.safetensors"
    save_file(network.state_dict(), path)
    images = torch.rand(2, 3, 40, 40)
    name = f"timm:test_resnet.r160_in1k@{path}"
    assert image_side(name) == 160
    found = encode(images, name)
    assert found.shape == (2, network.num_features)
    assert torch.equal(found, encode(images, name))
    with pytest.raises(ValueError, match="not in the cache of the Hugging Face Hub"):
        encode(images, "timm:test_resnet.r160_in1k")


@pytest.mark.slow
def test_sentence_transformers_from_a_path(offline):
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers import models

    words = models.BoW(vocab=["cat", "dog"], word_weights={})
    package.SentenceTransformer(modules=[words]).save(str(offline / "model"))
    found = encode(["cat", "dog cat", None], f"sentence-transformers:{offline / 'model'}")
    assert found.tolist() == [[1, 0], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="cannot be loaded"):
        encode(["cat"], "sentence-transformers:no-such-model")


def test_image_files_are_decoded_batch_by_batch(tmp_path):
    image = pytest.importorskip("PIL.Image")
    names = [f"{n}.png" for n in range(70)]
    for n, name in enumerate(names):
        image.new("RGB", (6, 6), (n, 0, 255)).save(tmp_path / name)
    seen = []

    def means(batch):
        seen.append(len(batch))
        return batch.mean((2, 3))

    found = encode(ImageFiles(tmp_path, names, 4), means)
    assert seen == [64, 6]
    assert torch.allclose(found[:, 0], torch.arange(70) / 255)
    assert torch.equal(found[:, 2], torch.ones(70))
    assert show_rows(ImageFiles(tmp_path, names, 4))(69).png.startswith(b"\x89PNG")
