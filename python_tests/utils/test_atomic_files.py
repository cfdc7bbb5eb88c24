"""Atomic writes: contents, permissions, symbolic links, leftovers and errors."""

import errno
import os
import stat

import pytest

from ptd_ext.utils.atomic_files import (
    NotWrittenError,
    atomic_file,
    is_leftover,
    remove_leftovers,
    write_text,
)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o664, 0o755])
def test_a_replaced_file_keeps_its_mode(tmp_path, permissions):
    path = tmp_path / "table.csv"
    path.write_text("before")
    path.chmod(permissions)
    write_text(path, "after")
    assert path.read_text() == "after"
    assert mode(path) == permissions


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "new", "")
        assert os.umask(mask) == mask  # reading the mask leaves it
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o666 & ~mask


def test_a_symbolic_link_stays_one(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "table").write_text("before")
    link = tmp_path / "link"
    link.symlink_to(folder / "table")
    write_text(link, "after")
    assert link.is_symlink()
    assert (folder / "table").read_text() == "after"
    assert sorted(os.listdir(folder)) == ["table"]


def test_a_link_to_nothing_yet_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_readers_see_the_old_contents_until_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with atomic_file(path) as temporary:
        with open(temporary, "w") as file:
            file.write("after")
        assert path.read_text() == "before"
        assert is_leftover(os.path.basename(temporary))
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyError), atomic_file(path):
        raise KeyError
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, r"file could not be written: the disk is full \(No space .*try again"),
        (errno.EDQUOT, r"file could not be written: the disk is full \("),
        (errno.EIO, r"file could not be written: Input/output error. Check that its folder is"),
    ],
)
def test_errors_of_the_system(tmp_path, number, message):
    with pytest.raises(NotWrittenError, match=message), atomic_file(tmp_path / "file"):
        raise OSError(number, os.strerror(number))
    assert os.listdir(tmp_path) == []


def test_an_error_that_names_its_file_passes_unchanged(tmp_path):
    error = NotWrittenError("b could not be written")
    with pytest.raises(NotWrittenError) as caught, atomic_file(tmp_path / "a"):
        raise error
    assert caught.value is error


def test_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"f cannot be written: .*none is not a folder"):
        write_text(tmp_path / "none" / "f", "")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotWrittenError, match="pipe cannot be written: it exists, but it is not"):
        write_text(tmp_path / "pipe", "")
    with pytest.raises(NotWrittenError, match="it exists, but it is not a file"):
        write_text(tmp_path, "")


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    write_text(tmp_path / "kept", "")
    leftover = tmp_path / ".table.csv.abcd_123.part"
    leftover.write_text("")
    for name in (".table.csv.abc.part", "table.csv.abcd_123.part", ".table.abcd_123.PART"):
        assert not is_leftover(name)
        (tmp_path / name).write_text("")
    with atomic_file(tmp_path / "now") as temporary:
        remove_leftovers(tmp_path)
        assert os.path.exists(temporary)  # its writer lives
        with open(temporary, "w"):
            pass
    assert not leftover.exists()
    assert len(os.listdir(tmp_path)) == 5
    remove_leftovers(tmp_path / "nowhere")


def test_a_text_is_written_as_utf8(tmp_path):
    path = tmp_path / "table.md"
    write_text(path, "± before")
    with pytest.raises(TypeError):
        write_text(path, ["not text"])
    assert path.read_bytes() == "± before".encode()
