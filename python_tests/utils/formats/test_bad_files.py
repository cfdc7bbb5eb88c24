"""Files that cost little to make: each is loaded or answered within a bound, with an error message.

Every case runs in a child process that may map a few hundred megabytes and use some seconds.
"""

import io
import pickle
import re
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
import torch
from fuzz.limited import MEGABYTE, run_one

from ptd_ext.engine.networks.weights import load_weights
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.word_vectors import _from_npy
from ptd_ext.experiments.toml import read_config

BATCH = np.zeros((2, 3072), np.uint8)
# A second of zeros, deflated: as the block can be repeated, a bomb is made without inflating one.
_deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
ZEROS = _deflate.compress(bytes(16 * MEGABYTE)) + _deflate.flush(zlib.Z_FULL_FLUSH)
END = zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def check(load, message, memory=200 * MEGABYTE, seconds=3):
    outcome = run_one(load, memory=memory, seconds=seconds)
    assert outcome.kind == "message", outcome.text
    assert re.search(message, outcome.text), outcome.text


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def bomb(path, name, blocks, start=b""):
    """An archive with one member that inflates to `blocks` times 16 MB behind its start."""
    body = zlib.compressobj(0, zlib.DEFLATED, -15)
    packed = body.compress(start) + body.flush(zlib.Z_FULL_FLUSH) + ZEROS * blocks + END
    size = len(start) + blocks * 16 * MEGABYTE
    crc = zlib.crc32(start)
    for _ in range(blocks):
        crc = zlib.crc32(bytes(16 * MEGABYTE), crc)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, packed)
        info = archive.getinfo(name)
        info.file_size, info.compress_type, info.CRC = size, zipfile.ZIP_DEFLATED, crc
    content = bytearray(path.read_bytes())
    # The header before the member repeats the list at the end.
    content[8:10] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    content[14:26] = struct.pack("<III", crc, len(packed), size)
    path.write_bytes(content)
    return path


def cifar(tmp_path, **batches):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    good = pickle.dumps({"data": BATCH, "labels": [0, 1]}, 2)
    for name in ("data_batch_1", "test_batch"):
        (folder / name).write_bytes(batches.get(name, good))
    return lambda: data.load("cifar10", tmp_path)


def member(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def test_a_picture_whose_last_chunk_claims_gigabytes(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for label in "ab":
        (tmp_path / label).mkdir()
        image.new("RGB", (16, 16)).save(tmp_path / label / "0.png")
    path = tmp_path / "b" / "0.png"
    content = path.read_bytes()
    chunk = content.index(b"IDAT")
    path.write_bytes(content[: chunk - 4] + b"\x7f\xff\xff\xff" + content[chunk:] + bytes(100))
    files = ImageFiles(tmp_path, ["b/0.png"], 8)
    # The pixels are there; what a decoder makes of the rest is its own.
    outcome = run_one(lambda: files[0], memory=100 * MEGABYTE)
    assert outcome.kind != "fault", outcome.text


def test_a_line_of_pixels(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        image.new("RGB", (6000, 1)).save(tmp_path / name / "0.png")
    check(
        lambda: data.load("image_folder", tmp_path).train_inputs[0],
        r"0\.png must be at most 64 times as long as it is wide; it has 6000 × 1 pixels",
        memory=400 * MEGABYTE,
    )


def doubled(depth):
    """Tuples of the same tuple twice: 2^depth leaves in five bytes a level."""
    return b")" + b"".join(b"q%ch%c\x86" % (k, k) for k in range(depth))


@pytest.mark.parametrize("role", ["key", "labels", "data"])
def test_a_pickle_of_doubled_tuples(tmp_path, role):
    body = {
        "key": b"}" + doubled(40) + b"K\1s.",
        "labels": b"}(U\4dataK\1U\6labels" + doubled(40) + b"u.",
        "data": b"}(U\4data" + doubled(40) + b"U\6labels]K\1au.",
    }[role]
    load = cifar(tmp_path, data_batch_1=b"\x80\2" + body)
    check(load, "data_batch_1 is rejected: it uses a container twice")
    path = tmp_path / "human.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("human/data.pkl", b"\x80\2" + body)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(
        (tmp_path / "cifar-10-batches-py" / "test_batch").read_bytes()
    )
    check(lambda: data.load("cifar10", tmp_path, labels_file=path), r"human\.pt is rejected")


def test_a_pickle_that_remembers_far_away(tmp_path):
    far = b"\x80\2}r" + struct.pack("<I", 1 << 28) + b"."
    check(cifar(tmp_path, data_batch_1=far), "it has a memo of 268,435,456 slots")


def test_a_pickle_that_encodes_the_same_text_again_and_again(tmp_path):
    text = b"X" + struct.pack("<I", MEGABYTE) + b"a" * MEGABYTE + b"q\0"
    again = b"c_codecs\nencode\n(h\0U\6latin1tR"
    load = cifar(tmp_path, data_batch_1=b"\x80\2" + text + b"](" + again * 500 + b"e.")
    check(load, "data_batch_1 is rejected: it makes more bytes than it has")


def test_an_archive_of_many_batches(tmp_path, monkeypatch):
    path = tmp_path / "cifar-10-python.tar.gz"
    monkeypatch.setattr(
        "ptd_ext.experiments.datasets.sets.cifar10._MAX_TOTAL", MEGABYTE, raising=False
    )
    batch = bytes(3073 * 100)
    with tarfile.open(path, "w:gz") as archive:
        for name in ("test_batch", *(f"data_batch_{k}" for k in range(5))):
            info = tarfile.TarInfo(f"{name}.bin")
            info.size = len(batch)
            archive.addfile(info, io.BytesIO(batch))
    check(lambda: data.load("cifar10", path), "must hold at most 1,048,576 bytes")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_an_archive_with_a_name_of_a_gigabyte(tmp_path, kind):
    path = tmp_path / "news.tar"
    with path.open("wb") as file:
        file.write(member("long", 1 << 30, kind))
        # The file has a hole where the name is, so that it takes no room on the disk.
        file.truncate(512 + (1 << 30) + 1024)
    check(lambda: data.load("news", path), r"news\.tar must (have names of|hold) at most")


def test_an_archive_with_a_damaged_header_is_not_taken_for_a_shorter_one(tmp_path):
    path = tmp_path / "cifar.tar"
    batch = bytes(3073)
    names = ("data_batch_1.bin", "test_batch.bin", "data_batch_2.bin")
    blocks = [member(name, 3073) + batch + bytes(-3073 % 512) for name in names]
    path.write_bytes(b"".join(blocks) + bytes(1024))
    assert len(data.load("cifar10", path).train_labels) == 2
    blocks[2] = b"\x01" + blocks[2][1:]
    path.write_bytes(b"".join(blocks) + bytes(1024))
    check(lambda: data.load("cifar10", path), r"cifar\.tar is cut off, damaged")
    path.write_bytes(b"".join(blocks[:2]))
    check(lambda: data.load("cifar10", path), r"cifar\.tar is cut off, damaged")


def test_members_that_nobody_asked_for(tmp_path):
    load = cifar(tmp_path)
    path = bomb(tmp_path / "labels.npz", "more.npy", 20, npy_start((20 << 24,)))
    with zipfile.ZipFile(path, "a") as archive:
        file = io.BytesIO()
        np.save(file, np.array([1, 0]))
        archive.writestr("worse_label.npy", file.getvalue())
    outcome = run_one(
        lambda: data.load("cifar10", tmp_path, labels_file=path), memory=200 * MEGABYTE, seconds=3
    )
    assert outcome.kind == "loaded", outcome.text
    assert load().train_labels.tolist() == [0, 1]


def npy_start(shape, kind="|u1"):
    file = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def test_an_array_that_inflates_a_thousandfold(tmp_path):
    path = bomb(tmp_path / "d.npz", "x.npy", 80, npy_start((80 << 14, 1024)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", npy_start((0,), "<i8"))
    check(lambda: data.load("npz", path), r"d\.npz declares 1,342,\d+,\d+ bytes in a file of")


def test_word_vectors_with_an_endless_header(tmp_path):
    """Version 2 of the format has four bytes for the length of the header."""
    (tmp_path / "v.words").write_text("the\n")
    (tmp_path / "v.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{")
    check(lambda: _from_npy(tmp_path / "v.npy", {"the": 1}), "in version .* of the format")


def test_a_deflated_file_of_torch(tmp_path):
    cifar(tmp_path)
    text = b"\x80\2}X\1\0\0\0aX" + struct.pack("<I", 20 * 16 * MEGABYTE)
    path = bomb(tmp_path / "human.pt", "human/data.pkl", 20, text)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("human/version", b"3\n")
    message = r"human\.pt must be stored as torch\.save does it; human/data\.pkl is compressed"
    check(lambda: data.load("cifar10", tmp_path, labels_file=path), message)
    check(lambda: load_weights(torch.nn.Linear(2, 2), path), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a." * 30_000 + "a = 1", "at most 64 dots in a line; line 1 has more"),
        (f"lr = {{ {'a.' * 30_000}a = 1 }}", "at most 64 dots in a line"),
        ("[" + "a." * 30_000 + "a]", "at most 64 dots in a line"),
        ("milestones = " + "[" * 60_000, "not a TOML file"),
        ("epochs = " + "9" * 5_000, r"not a TOML file|epochs must be at most"),
        ("lr = " + "9" * 400, "lr must be at most 9223372036854775807"),
        ("#" * (1 << 20), "declares 1,048,576 bytes, more than the 65,536"),
        ("k" * 60_000 + " = 1", "which is not a setting"),
    ],
)
def test_a_configuration_that_takes_long(tmp_path, text, message):
    path = tmp_path / "c.toml"
    path.write_text(text)
    check(lambda: read_config(path), rf"c\.toml.*{message}")


def news(tmp_path, texts):
    (tmp_path / "glove.txt").write_text("the 1 2\n")
    for number, text in enumerate(texts):
        folder = tmp_path / f"a.{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_text(text)
    return lambda: data.load("news", tmp_path)


@pytest.mark.parametrize(
    ("limit", "message"),
    [("_MAX_TEXT", "declares 12 bytes"), ("_MAX_MESSAGES", "at most 20 "), ("_MAX_WORDS", "of 20")],
)
def test_texts_without_end(tmp_path, limit, message, monkeypatch):
    monkeypatch.setattr(f"ptd_ext.experiments.datasets.sets.news.{limit}", 20, raising=False)
    check(news(tmp_path, (f"the w{k:07}" for k in range(30))), message)


@pytest.mark.parametrize(
    "labels",
    [np.array([0.0, 1.9]), np.array([0, 1j]), np.array([False, True]), np.array(["0", "1"])],
)
@pytest.mark.parametrize("ending", ["npy", "npz", "pt"])
def test_labels_that_are_not_integers(tmp_path, labels, ending):
    cifar(tmp_path)
    path = tmp_path / f"labels.{ending}"
    if ending == "npy":
        np.save(path, labels)
    elif ending == "npz":
        np.savez(path, worse_label=labels)
    else:
        torch.save({"worse_label": labels.tolist()}, path)
    check(
        lambda: data.load("cifar10", tmp_path, labels_file=path),
        r"labels\.\w+ (must be integers|must hold numbers|is rejected)",
    )


@pytest.mark.parametrize("labels", [[0, 1.9], [False, True], np.array([0, 1.9]), ["0", "1"], 3])
def test_labels_of_batches_that_are_not_integers(tmp_path, labels):
    content = pickle.dumps({"data": BATCH, "labels": labels}, 2)
    check(cifar(tmp_path, data_batch_1=content), "labels of .*data_batch_1 must be integers")


def test_labels_of_svhn_that_are_not_integers(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    images = np.zeros((32, 32, 3, 2), np.uint8)
    for labels, kind in (([1, 2.5], "float64"), ([1, 2j], "others"), ([True, True], "float")):
        for part in ("train", "test"):
            y = np.array(labels)[:, None]
            scipy_io.savemat(tmp_path / f"{part}_32x32.mat", {"X": images, "y": y})
        if labels[1] is not True:
            check(lambda: data.load("svhn", tmp_path), rf"train_32x32\.mat .*{kind}")


def test_a_variable_with_an_endless_name(tmp_path):
    size = 20 * 16 * MEGABYTE
    start = struct.pack("<IIIIIIII", 14, size + 100, 6, 8, 6, 0, 5, 8)
    start += struct.pack("<II", 1, 1) + struct.pack("<II", 1, size)
    body = zlib.compressobj(0, zlib.DEFLATED, -15)
    packed = b"\x78\x9c" + body.compress(start) + body.flush(zlib.Z_FULL_FLUSH) + ZEROS * 20
    content = (
        b"MATLAB 5.0 MAT-file".ljust(124)
        + b"\x00\x01IM"
        + struct.pack("<II", 15, len(packed))
        + packed
    )
    for part in ("train", "test"):
        (tmp_path / f"{part}_32x32.mat").write_bytes(content)
    check(
        lambda: data.load("svhn", tmp_path),
        "a part of a variable has 335,544,320 bytes",
    )
