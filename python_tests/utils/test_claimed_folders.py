"""One process at a time writes to a folder."""

import subprocess
import sys

import pytest

from ptd_ext.utils.claimed_folders import LOCK, claim
from ptd_ext.utils.distributed import Ranks

HOLD = """
import sys, pathlib
from ptd_ext.utils.claimed_folders import claim
with claim(pathlib.Path(sys.argv[1])):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_the_folder_is_made_and_leftovers_are_removed(tmp_path):
    out = tmp_path / "a" / "b"
    with claim(out):
        assert (out / LOCK).exists()
    (out / ".x.abcd1234.part").write_text("")
    with claim(out):
        assert [path.name for path in out.iterdir()] == [LOCK]


def test_claims_of_one_process_nest(tmp_path):
    with claim(tmp_path), claim(tmp_path / "."):
        pass
    with claim(tmp_path):
        pass


def test_another_process_is_rejected_until_the_first_one_ends(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "claimed\n"
        rejected = pytest.raises(ValueError, match="is in use: another process writes to it")
        with rejected, claim(tmp_path):
            pass
        holder.kill()
    with claim(tmp_path):
        pass


def test_after_an_error_only_an_empty_folder_of_its_own_is_removed(tmp_path):
    with pytest.raises(KeyError), claim(tmp_path / "made"):
        raise KeyError
    assert not (tmp_path / "made").exists()
    (tmp_path / "found").mkdir()
    with pytest.raises(KeyError), claim(tmp_path / "found"):
        raise KeyError
    assert list((tmp_path / "found").iterdir()) == []
    with pytest.raises(AttributeError), claim(tmp_path / "used"):
        (tmp_path / "used" / "result").mkdir().fails_after_it_was_made()
    assert {path.name for path in (tmp_path / "used").iterdir()} == {LOCK, "result"}


def test_other_ranks_neither_make_nor_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(Ranks, "wait", lambda self: None)
    with claim(tmp_path / "out", Ranks(1, 2)):
        assert not (tmp_path / "out").exists()


def test_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"\.lock could not be written"), claim(tmp_path / "file"):
        pass
