"""Tar archives of every compression, and their limits to the byte."""

import io
import tarfile

import pytest

from ptd_ext.utils.formats.tar import read_tar

LIMITS = (2000, 1 << 20, 20)
FILES = {"a.txt": b"alpha", "folder/b.bin": bytes(range(256)) * 4, "c" * 200: b"", "ü": b"\n"}


def write(path, mode="w", files=FILES, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, mode, format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_wanted_files(tmp_path, mode, form):
    path = write(tmp_path / "a.tar", mode, form=form)
    assert dict(read_tar(path, lambda name: True, *LIMITS)) == FILES
    found = dict(read_tar(path, lambda name: name.endswith(".bin"), *LIMITS))
    assert found == {"folder/b.bin": FILES["folder/b.bin"]}


def test_limits(tmp_path):
    path = write(tmp_path / "a.tar", files={"a": bytes(2000), "b": b""})

    def names(file=2000, total=1 << 20, files=3):
        return [name for name, _ in read_tar(path, lambda _: True, file, total, files)]

    assert names() == ["a", "b"]
    with pytest.raises(
        ValueError, match="holds a, which declares 2,000 bytes, more than the 1,999"
    ):
        names(file=1999)
    with pytest.raises(ValueError, match="must hold at most 2 files; it holds more"):
        names(files=2)
    used = 512 * 4 + 2048  # three headers, the block of zeros, and the file in whole blocks
    assert names(total=used) == ["a", "b"]
    with pytest.raises(ValueError, match=f"must hold at most {used - 1:,} bytes; it declares more"):
        names(total=used - 1)


@pytest.mark.parametrize("length", [0, 100, 511, 512, 1500])
def test_cut_archives(tmp_path, length):
    path = write(tmp_path / "a.tar")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"a\.tar is cut off, damaged or not a tar archive"):
        list(read_tar(path, lambda name: True, *LIMITS))


def test_a_damaged_header_does_not_end_the_archive(tmp_path):
    path = write(tmp_path / "a.tar", files={"a": b"1", "b": b"2"})
    content = bytearray(path.read_bytes())
    content[512 * 3 + 3] ^= 1  # in the name of b
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is cut off, damaged or not a tar archive"):
        list(read_tar(path, lambda name: True, *LIMITS))


def test_a_name_beyond_the_limit(tmp_path):
    path = write(tmp_path / "a.tar", files={"c" * 20_000: b""}, form=tarfile.GNU_FORMAT)
    with pytest.raises(ValueError, match="must have names of at most 16,384 bytes; one has 20,480"):
        list(read_tar(path, lambda name: True, *LIMITS))
