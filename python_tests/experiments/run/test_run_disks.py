"""Disks that are full, folders that cannot be written to, and two runs in one folder."""

import contextlib
import errno
import os
import shutil
import subprocess

import pytest
import torch
from training_cases import CPU, flags, outcome, quick_settings, quick_values, write_clusters

from ptd_ext.cli import main
from ptd_ext.engine.training import checkpoint, train_step
from ptd_ext.experiments.run import experiment as session
from ptd_ext.experiments.run.experiment import train
from ptd_ext.utils import claimed_folders
from ptd_ext.utils.atomic_files import NotWrittenError, atomic_file, remove_leftovers
from ptd_ext.utils.claimed_folders import claim
from ptd_ext.utils.tensor_files import write


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, 4 MB in size, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here; test_a_write_that_finds_no_room goes on")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder, *, leave):
    """A file that leaves so many bytes free, in whole pages."""
    path = folder / "filler"
    free = os.statvfs(folder)
    path.write_bytes(b"x" * (free.f_bavail * free.f_frsize - leave))
    return path


def fill_at(monkeypatch, folder, call, leave):
    """Fill the disk in front of a step, counted from one."""
    step, calls, made = train_step.TrainStep.step, [], []

    def filling(self, *arguments):
        calls.append(1)
        if len(calls) == call:
            made.append(fill(folder, leave=leave))
        step(self, *arguments)

    monkeypatch.setattr(train_step.TrainStep, "step", filling)
    return made


# Not even the record of the epoch fits; a part of a checkpoint fits, and a larger one.
@pytest.mark.parametrize("leave", [0, 8192, 65536])
def test_a_full_disk_in_a_checkpoint(clusters, tmp_path, small_disk, monkeypatch, capsys, leave):
    out, values = small_disk / "run", quick_values(clusters, "CE", epochs=4)
    with monkeypatch.context() as patch:
        made = fill_at(patch, small_disk, 25, leave)
        with pytest.raises(SystemExit) as ended:
            main(["train", *flags(values), "--out", str(out)])
    printed = capsys.readouterr().err
    assert ended.value.code == 2
    assert "could not be written: the disk is full" in printed
    assert "free some space, then try again" in printed
    assert "Traceback" not in printed
    assert torch.load(out / "checkpoint.pt", weights_only=True)["epoch"] == 2
    assert not list(out.glob(".*.part"))
    with pytest.raises(SystemExit):  # still full
        main(["train", "--out", str(out), "--resume"])
    assert "Traceback" not in capsys.readouterr().err
    made[0].unlink()
    main(["train", "--out", str(out), "--resume"])
    train(quick_settings(clusters, "CE", epochs=4), tmp_path / "whole", CPU)
    assert outcome(out) == outcome(tmp_path / "whole")


def test_a_disk_that_is_full_from_the_start(clusters, small_disk, capsys):
    fill(small_disk, leave=0)
    out = small_disk / "run"
    with pytest.raises(SystemExit) as ended:
        main(["train", *flags(quick_values(clusters, "CE")), "--out", str(out)])
    assert ended.value.code == 2
    assert "the disk is full" in capsys.readouterr().err
    assert not out.exists()


@contextlib.contextmanager
def no_room_after(monkeypatch, size):
    """Files that are opened for writing take so many bytes, as on a disk that is full then."""
    import builtins

    real = builtins.open

    def opening(file, mode="r", *arguments, **options):
        opened = real(file, mode, *arguments, **options)
        if "w" in mode and "b" in mode:
            write, written = opened.write, [0]

            def limited(data):
                written[0] += len(data)
                if written[0] > size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return write(data)

            opened = _Limited(opened, limited)
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", opening)
        yield


class _Limited:
    def __init__(self, file, write):
        self.file, self.write, self.name = file, write, file.name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def flush(self):
        self.file.flush()


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_write_that_finds_no_room(tmp_path, monkeypatch, size):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, "me", {"x": torch.zeros(2000)})
    before = path.read_bytes()
    no_room = pytest.raises(NotWrittenError, match="the disk is full")
    with no_room_after(monkeypatch, size), no_room as caught:
        checkpoint.save(path, "me", {"x": torch.ones(2000)})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_a_safetensors_file_that_finds_no_room(small_disk):
    fill(small_disk, leave=4096)
    with pytest.raises(OSError, match=r"x\.safetensors could not be written"):
        write(small_disk / "x.safetensors", "x", {"x": torch.zeros(2_000_000)}, {})
    assert not (small_disk / "x.safetensors").exists()


@pytest.fixture
def read_only(small_disk):
    """Makes the small disk read-only, which binds the superuser as well."""

    def remount():
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    return remount


def test_a_folder_that_cannot_be_written_to(clusters, small_disk, read_only, capsys):
    """A finished run is read all the same; one that is not gets a message."""
    settings = quick_settings(clusters, "CE", epochs=1)
    out, values = small_disk / "run", quick_values(clusters, "CE", epochs=1)
    main(["train", *flags(values), "--out", str(out)])
    read_only()
    assert train(settings, out, CPU, resume=True)["method"] == "CE"
    main(["train", "--out", str(out), "--resume"])
    assert "clean test accuracy" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["train", *flags(values), "--out", str(small_disk / "other")])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "could not be written: Read-only file system" in printed
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--methods", "CE", "--seeds", "1", "--out", str(small_disk / "c")])
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_table_that_cannot_be_written(small_disk, read_only, capsys):
    pytest.importorskip("scipy")
    read_only()
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "digits", "--methods", "CE", "--out", str(small_disk / "table")])
    assert ended.value.code == 2
    assert "Read-only file system" in capsys.readouterr().err


def test_results_that_cannot_be_written(clusters, small_disk, read_only, capsys):
    """A command that had no room for its report is repeated once there is some."""
    pytest.importorskip("sklearn")
    out, quick = small_disk / "labels", ["--network", "linear", "--method", "EM-F", "--epochs", "1"]
    command = ["labels", str(clusters), *quick, "--no-progress", "--out"]
    filler = fill(small_disk, leave=40_000)
    with pytest.raises(SystemExit, match="2"):
        main([*command, str(out)])
    assert "report.html could not be written: the disk is full" in capsys.readouterr().err
    filler.unlink()
    main([*command, str(out)])
    assert sorted(os.listdir(out)) == ["labels.csv", "report.html"]
    read_only()
    with pytest.raises(SystemExit, match="2"):
        main([*command, str(small_disk / "other")])
    assert "could not be written: Read-only file system" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*command, str(out)])
    assert "holds results already" in capsys.readouterr().err


def test_a_temporary_file_in_use_is_not_a_leftover(tmp_path):
    with atomic_file(tmp_path / "a.txt") as temporary:
        remove_leftovers(tmp_path)
        assert os.path.exists(temporary)
        with open(temporary, "w") as file:
            file.write("whole")
    assert (tmp_path / "a.txt").read_text() == "whole"


def test_a_device_is_not_replaced(tmp_path):
    """Renaming would put a file in its place, and a superuser may do so."""
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(NotWrittenError, match="pipe cannot be written: it exists, but it is not"),
        atomic_file(tmp_path / "pipe"),
    ):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_temporary_file_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    """Another process looks for leftovers between the making of the file and its lock."""
    import ptd_ext.utils.atomic_files as whole_files

    flock, looked = whole_files.fcntl.flock, []

    def looking(file, how):
        if not looked:
            looked.append(1)
            remove_leftovers(tmp_path)
        flock(file, how)

    monkeypatch.setattr(whole_files.fcntl, "flock", looking)
    with atomic_file(tmp_path / "a.txt") as temporary:
        assert looked
        assert os.path.exists(temporary)


def test_a_claimed_folder_keeps_others_out(tmp_path):
    out = tmp_path / "run"
    with claim(out, CPU.ranks):
        with claim(out, CPU.ranks):  # its own process
            pass
        claimed_folders._claimed.clear()
        in_use = pytest.raises(ValueError, match="is in use: another process writes to it")
        with in_use, claim(out, CPU.ranks):
            pass
        assert (out / ".lock").exists()


def test_the_loser_of_two_runs_deletes_nothing(clusters, tmp_path, capsys, monkeypatch):
    """The second one starts when the first has claimed the folder, and has written nothing else."""
    out, real = tmp_path / "run", session._train
    command = ["train", *flags(quick_values(clusters, "CE")), "--out", str(out)]

    def second_one(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(claimed_folders, "_claimed", set())
            with pytest.raises(SystemExit) as ended:
                main(command)
        assert ended.value.code == 2
        return real(*arguments)

    monkeypatch.setattr(session, "_train", second_one)
    main(command)
    assert "is in use: another process writes to it" in capsys.readouterr().err
    assert {"given.toml", "settings.toml", "result.json"} <= set(os.listdir(out))


def test_a_run_that_finished_meanwhile_is_not_trained_over(clusters, tmp_path, monkeypatch):
    """The other run finished after this one had checked the folder and before it claimed it."""
    settings, out = quick_settings(clusters, "CE"), tmp_path / "run"
    real = session.claim

    def late(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(session, "claim", real)
            train(settings, out, CPU)
        return real(*arguments)

    monkeypatch.setattr(session, "claim", late)
    with pytest.raises(FileExistsError, match="holds a run already"):
        train(settings, out, CPU)
