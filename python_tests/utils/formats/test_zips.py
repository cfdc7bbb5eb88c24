"""Members of zip archives, within bounds that are checked before they are read."""

import zipfile

import pytest

from ptd_ext.utils.bounded_files import ContentError
from ptd_ext.utils.formats import zips
from ptd_ext.utils.formats.zips import check_members, open_zip, read_member


@pytest.fixture
def path(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("stored", b"0123456789")
        archive.writestr("deflated", bytes(1000), zipfile.ZIP_DEFLATED)
        archive.writestr("bzip2", b"x", zipfile.ZIP_BZIP2)
    return tmp_path / "a.zip"


def test_members(path):
    with open_zip(path) as archive:
        assert read_member(archive, "stored") == b"0123456789"
        assert read_member(archive, "deflated") == bytes(1000)
        with pytest.raises(ContentError, match="must be stored or deflated; bzip2 has another"):
            read_member(archive, "bzip2")


def test_inflated_members_up_to_the_limit(path, monkeypatch):
    monkeypatch.setattr(zips, "MAX_RATIO", 0)
    with open_zip(path) as archive:
        monkeypatch.setattr(zips, "MAX_INFLATED", 1010)
        check_members(archive, ["stored", "deflated"])
        monkeypatch.setattr(zips, "MAX_INFLATED", 1009)
        with pytest.raises(ContentError, match=r"declares 1,010 bytes in a file of .* the 1,009"):
            check_members(archive, ["stored", "deflated"])
        monkeypatch.setattr(zips, "MAX_RATIO", 20)  # the archive's, which is larger
        check_members(archive, ["stored", "deflated"])


def test_a_stored_member_that_declares_more_than_the_archive(path):
    with open_zip(path) as archive:
        archive.getinfo("stored").file_size = 10_000
        with pytest.raises(ContentError, match="is damaged: it declares 10,000 bytes and has"):
            read_member(archive, "stored")


def test_a_member_that_ends_early(path):
    with open_zip(path) as archive:
        archive.getinfo("deflated").file_size = 1001
        with pytest.raises((ContentError, zipfile.BadZipFile)):
            read_member(archive, "deflated")


def test_a_wrong_checksum(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0123456789", b"0123456780"))
    with open_zip(path) as archive, pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        read_member(archive, "stored")


def test_a_directory_beyond_the_limit(path, monkeypatch):
    monkeypatch.setattr(zips, "MAX_DIRECTORY", 100)
    with pytest.raises(ContentError, match="must list its members in at most 100 bytes; it needs"):
        open_zip(path).__enter__()
