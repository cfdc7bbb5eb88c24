"""Small real files of every reader, how each is loaded, and where damage goes."""

import contextlib
import functools
import gzip
import io
import os
import pickle
import random
import struct
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ptd_ext
from fuzz import mutations
from fuzz.limited import Outcome, judged
from ptd_ext.data.read import read_data
from ptd_ext.engine.networks.weights import load_weights
from ptd_ext.engine.rows.labels import GivenLabels, encode_labels
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.experiments.toml import read_config, write_config
from ptd_ext.label_issues import read_decisions
from ptd_ext.label_issues.review.decision_file import DecisionFile
from ptd_ext.utils.distributed import Ranks

RANDOM = np.random.default_rng(0)
LABELS = [3, 1, 4, 1, 5, 9]
SEALED = tuple(f"{name}.safetensors" for name in ("model", "labels"))
DECISIONS = b"""id,given_label,decision,verified_label,reviewer,time,note,audit
1,cat,corrected,dog,Ann,2026-01-02T03:04:05Z,"a, word",
2,cat,wrong,,Ann,2026-01-02,,
"""
EXPORT = b"""[{"data": {"id": "1", "given_label": "cat"}, "annotations": [{"completed_by": 1,
"was_cancelled": false, "updated_at": "2026-01-02T03:04:05Z", "result": [{"from_name": "label",
"to_name": "x", "type": "choices", "value": {"choices": ["dog"]}}]}]}]"""
CPU = Placement(torch.device("cpu"), Ranks())


@dataclass
class Reader:
    """Files by name, those of them to damage (all by default), and their function."""

    files: dict[str, bytes]
    load: Callable[[Path], Any]
    damaged: tuple[str, ...] = ()
    within: tuple[Callable[..., bytes], ...] = ()
    printed: str = field(default="\0")

    def write(self, root: Path) -> None:
        """Write those of the files that are not in the folder yet."""
        for path, content in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if not (root / path).exists():
                (root / path).write_bytes(content)

    def run(self, folder: Path, name: str, seed: str) -> Outcome:
        """The outcome of loading the files with one of them damaged, by the seed."""
        root = folder / name
        self.write(root)
        chance = random.Random(seed)
        path = chance.choice(self.damaged or sorted(self.files))
        other = self.files[chance.choice(sorted(self.files))]
        content = self.files[path]

        def damage(content: bytes) -> bytes:
            return mutations.mutated(content, other, chance)

        if self.within and chance.random() < 0.7:
            content = chance.choice(self.within)(content, damage, chance)
        else:
            content = damage(content)
        (root / path).write_bytes(content)
        outcome = judged(lambda: self.load(root), str(root))
        if outcome.kind == "fault" and f"ValueError: {self.printed}" in outcome.text:
            outcome = Outcome("message", outcome.text)
        (root / path).write_bytes(self.files[path])
        return outcome


def decisions(path: Path) -> Any:
    """Decisions about three rows of two classes."""
    labels = GivenLabels(np.zeros(3, int), np.array(["cat", "dog"]))
    return read_decisions(path, np.arange(3), labels)


def saved(save: Callable[..., Any], *arguments: Any, ending: str = "", **options: Any) -> bytes:
    """The bytes that a function writes whose first argument is a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file{ending}")
        save(path, *arguments, **options)
        return Path(path).read_bytes()


def idx(array: np.ndarray) -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


def mnist(pack: Callable[[bytes], bytes], ending: str) -> dict[str, bytes]:
    files = {}
    for part, count in (("train", 5), ("t10k", 3)):
        images = RANDOM.integers(0, 256, (count, 4, 5), dtype=np.uint8)
        labels = np.array(LABELS[:count], np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            files[f"{part}-{kind}-ubyte{ending}"] = pack(idx(array))
    return files


def cifar_batch(protocol: int = 2) -> bytes:
    images = RANDOM.integers(0, 256, (6, 3072), dtype=np.uint8)
    content = {b"data": images, b"labels": LABELS, b"batch_label": b"x", b"filenames": [b"a"] * 6}
    return pickle.dumps(content, protocol)


def tar(contents: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def svhn(packed: bool) -> dict[str, bytes]:
    from scipy.io import savemat

    content = {"X": np.zeros((32, 32, 3, 3), np.uint8), "y": np.array([[1], [2], [10]], np.uint8)}
    file = saved(savemat, content, do_compression=packed, ending=".mat")
    return {"train_32x32.mat": file, "test_32x32.mat": file}


def images() -> dict[str, bytes]:
    from PIL import Image, features

    kinds = ["png", "jpg", "gif", "bmp", "tiff", "ppm"] + ["webp"] * features.check("webp")
    files = {}
    for number, kind in enumerate(kinds):
        pixels = Image.fromarray(RANDOM.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        for label in "ab":
            files[f"{label}/{number}.{kind}"] = saved(
                lambda path, pixels=pixels: pixels.save(path), ending=f".{kind}"
            )
    return files


def load_images(root: Path) -> None:
    loaded = data.load("image_folder", root, image_size=8)
    for part in (loaded.train_inputs, loaded.test_inputs):
        for index in range(len(part)):
            part[index]


def news() -> dict[str, bytes]:
    groups = {
        f"news/{group}/{k}": b"Subject: the cat\n\nThe cat sat %d\n" % k
        for group in ("a.b", "c.d")
        for k in range(3)
    }
    return groups


def clothing() -> dict[str, bytes]:
    files = {}
    for kind, split in (("noisy", "train"), ("clean", "test")):
        names = [f"images/{kind}{k}.jpg" for k in range(3)]
        files[f"{kind}_{split}_key_list.txt"] = "\n".join(names).encode()
        files[f"{kind}_label_kv.txt"] = "".join(f"{n} {k}\n" for k, n in enumerate(names)).encode()
        files |= dict.fromkeys(names, b"x")
    return files


def noise() -> ptd_ext.noise.LabelNoise:
    features = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    return ptd_ext.instance_dependent_noise(features, torch.arange(12) % 3, 0.4, random_state=0)


def transition() -> ptd_ext.PartTransition:
    parts = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    return ptd_ext.PartTransition(parts, torch.rand(2, 4), torch.zeros(3, 3), about={"seed": 1})


def estimate() -> ptd_ext.transition.PartFit:
    probs = torch.rand(8, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    anchors = [[0, 1, 2], [3, 4, 5], [5, 6, 7]]
    return ptd_ext.fit_part_transitions(probs[:, :2].softmax(-1), probs, anchors)


def table(separator: str) -> bytes:
    # Few different names: a column in which all are different is rejected as an id.
    rows = ["name,size,kind", *(f"a text {k % 4},{k / 7},{'abc'[k % 3]}" for k in range(12))]
    return "\n".join(rows).replace(",", separator).encode()


def own(path: Path, label: str | None = None, **options: Any) -> None:
    """Read a user's own data, encode rows and labels, and write a copy."""
    found = read_data(path, label=label, **options)
    try:
        labels = encode_labels(found.y)
        Preprocessing.fit(found.rows())
        keep = np.arange(len(labels.codes)) % 2 == 0
        found.write(path.with_name("copy"), keep, labels.classes[labels.codes[::-1]])
    except (ValueError, TypeError) as error:  # messages about rows and labels, whatever their file
        text = str(error).split("\n")[0]  # scikit-learn reports more about missing values
        if not text.endswith((".", "?")):
            raise
        raise ValueError(f"{path}: {text}") from None


@functools.cache
def classifier() -> bytes:
    g = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(40, 3, generator=g), torch.arange(40) % 2
    fitted = ptd_ext.PTDClassifier(network="linear", n_parts=2, epochs=1, random_state=0)
    fitted.fit(rows, np.array(["no", "yes"])[labels])
    return saved(lambda path: fitted.save(path))


def load_classifier(root: Path) -> None:
    """Load a classifier, and predict by it: what loads must work."""
    found = ptd_ext.PTDClassifier.load(root / "c")
    rows = torch.zeros(2, found.n_features_in_)
    found.predict(rows)
    found.transition(rows)


@functools.cache
def finished_run() -> dict[str, bytes]:
    """The files of a run that TrainedRun.load reads."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rows = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)).numpy()
        np.savez(root / "d.npz", x=rows, y=np.array(["no", "yes"])[np.arange(80) % 2])
        quick = {"warm_up_epochs": 1, "pred_probs_epochs": 1, "epochs": 1, "n_parts": 2}
        given = {"dataset": "npz", "data": str(root / "d.npz"), "method": "PTD-F", **quick}
        given |= {"network": "linear", "threads": 1, "progress": False}
        with contextlib.redirect_stdout(io.StringIO()):
            train(resolve(given, {}), root / "run", CPU)
        names = ("settings.toml", "result.json", *SEALED)
        return {name: (root / "run" / name).read_bytes() for name in names}


def load_finished(root: Path) -> None:
    """All of a run: what it predicts, T(x), and its findings."""
    run = ptd_ext.TrainedRun.load(root)
    rows = np.zeros((2, 3), np.float32)
    assert run.predict(rows).shape == (2,)
    assert run.transition(rows).shape == (2, 2, 2)
    found = run.label_issues
    assert len(found) == len(found.given_label)
    str(found)


def human(content: bytes, name: str, **options: Any) -> Reader:
    rows = RANDOM.integers(0, 256, (6, 3073), dtype=np.uint8)
    rows[:, 0] = LABELS
    batches = {f"{part}.bin": rows.tobytes() for part in ("data_batch_1", "test_batch")}
    files = {**batches, name: content}
    return Reader(
        files, lambda root: data.load("cifar10", root, labels_file=root / name), (name,), **options
    )


def readers() -> dict[str, Reader]:
    """Every reader by name."""
    batches = {"data_batch_1": cifar_batch(), "test_batch": cifar_batch(4)}
    arrays = {"x": RANDOM.normal(size=(6, 4)), "y": np.array(LABELS), "more": np.zeros(3)}
    labels = {"worse_label": np.array(LABELS), "clean_label": np.array(LABELS)}
    tensors = {name: torch.from_numpy(value) for name, value in labels.items()}
    glove = b"the 1 2 3\ncat 4 5 6\nsat 7 8 9\n"
    mats = {packed: svhn(packed) for packed in (True, False)}
    layers = torch.nn.Linear(3, 2)

    def torch_saved(content: Any, **options: Any) -> bytes:
        return saved(lambda path: torch.save(content, path, **options))

    zipped, tarred = (mutations.within_zip,), (mutations.within_tar, mutations.within_tar_member)
    sealed = (mutations.within_safetensors,)
    news_files = {**news(), "glove.txt": glove}
    return {
        "idx": Reader(mnist(bytes, ""), lambda r: data.load("mnist", r), printed="mnist"),
        "idx.gz": Reader(
            mnist(gzip.compress, ".gz"),
            lambda r: data.load("mnist", r),
            within=(mutations.within_gzip,),
            printed="mnist",
        ),
        "npz": Reader(
            {"d.npz": saved(np.savez, **arrays, ending=".npz")},
            lambda r: data.load("npz", r / "d.npz"),
            within=zipped,
            printed="npz",
        ),
        "npz deflated": Reader(
            {"d.npz": saved(np.savez_compressed, **arrays, ending=".npz")},
            lambda r: data.load("npz", r / "d.npz"),
            within=zipped,
            printed="npz",
        ),
        "cifar pickles": Reader(batches, lambda r: data.load("cifar10", r), printed="cifar10"),
        "cifar tar": Reader(
            {"cifar-10-python.tar.gz": tar(batches, "w:gz")},
            lambda r: data.load("cifar10", r),
            within=tarred,
            printed="cifar10",
        ),
        "svhn": Reader(mats[False], lambda r: data.load("svhn", r), printed="svhn"),
        "svhn packed": Reader(
            mats[True],
            lambda r: data.load("svhn", r),
            within=(mutations.within_matlab,),
            printed="svhn",
        ),
        "images": Reader(images(), load_images),
        "news": Reader(news_files, lambda r: data.load("news", r, text_length=9), printed="news"),
        "news tar": Reader(
            {"20news.tar.gz": tar(news(), "w:gz"), "glove.txt": glove},
            lambda r: data.load("news", r, text_length=9),
            ("20news.tar.gz",),
            tarred,
            "news",
        ),
        "clothing1m": Reader(
            clothing(),
            lambda r: data.load("clothing1m", r),
            tuple(name for name in clothing() if name.endswith("txt")),
        ),
        "word vectors": Reader(
            {
                **news(),
                "v.npy": saved(np.save, np.eye(3), ending=".npy"),
                "v.words": b"the\ncat\nsat\n",
            },
            lambda r: data.load("news", r, text_length=9, word_vectors=r / "v.npy"),
            ("v.npy", "v.words"),
        ),
        "human .pt": human(torch_saved(labels), "labels.pt", within=zipped),
        "human tensors": human(torch_saved(tensors), "labels.pt", within=zipped),
        "human legacy": human(
            torch_saved(tensors, _use_new_zipfile_serialization=False), "labels.pt"
        ),
        "human .npz": human(saved(np.savez, ending=".npz", **labels), "labels.npz", within=zipped),
        "human .npy": human(saved(np.save, labels["worse_label"], ending=".npy"), "labels.npy"),
        "weights": Reader(
            {"w.pth": torch_saved(layers.state_dict())},
            lambda r: load_weights(layers, r / "w.pth"),
            within=zipped,
        ),
        "config": Reader(
            {"c.toml": saved(lambda path: write_config(vars(ExperimentSettings()), path))},
            lambda r: read_config(r / "c.toml"),
        ),
        "noise": Reader(
            {"n": saved(lambda path: noise().save(path))},
            lambda r: ptd_ext.noise.LabelNoise.load(r / "n"),
            within=sealed,
        ),
        "own csv": Reader({"d.csv": table(",")}, lambda r: own(r / "d.csv", label="kind")),
        "own tsv": Reader(
            {"d.tsv": table("\t")}, lambda r: own(r / "d.tsv", label="kind", text="name")
        ),
        "own npz": Reader(
            {"d.npz": saved(np.savez, **arrays, ending=".npz")},
            lambda r: own(r / "d.npz"),
            within=zipped,
        ),
        "own images": Reader(images(), lambda r: own(r, image_size=8)),
        "decisions": Reader({"d.csv": DECISIONS}, lambda r: decisions(r / "d.csv")),
        "decisions of a server": Reader(
            {"d.csv": DECISIONS}, lambda r: DecisionFile(r / "d.csv").entries()
        ),
        "export of Label Studio": Reader({"d.json": EXPORT}, lambda r: decisions(r / "d.json")),
        "classifier": Reader({"c": classifier()}, load_classifier, within=sealed),
        "run": Reader(finished_run(), load_finished, SEALED, sealed),
        "run's words": Reader(finished_run(), load_finished, ("settings.toml", "result.json")),
        "transition": Reader(
            {"t": saved(lambda path: transition().save(path))},
            lambda r: ptd_ext.PartTransition.load(r / "t"),
            within=sealed,
        ),
        "estimate": Reader(
            {"t": saved(lambda path: estimate().save(path))},
            lambda r: ptd_ext.transition.PartFit.load(r / "t"),
            within=sealed,
        ),
    }
