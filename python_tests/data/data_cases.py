"""Small files of user data."""

import io
import zipfile

import numpy as np

RANDOM = np.random.default_rng(0)
X, Y = np.zeros((4, 3)), np.arange(4) % 2


def save(folder, **arrays):
    path = folder / "d.npz"
    np.savez_compressed(path, **arrays)
    return path


def replace_member(path, name, content):
    """Replace a member of an archive by other bytes."""
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for each, old in members.items():
            archive.writestr(each, old)


def npy_start(kind, shape):
    file = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def picture(path, value, size=(8, 8)):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


def folder_part(root, part, classes=("ant", "bee"), count=3):
    for label, name in enumerate(classes):
        for k in range(count):
            picture(root / part / name / f"{k}.png", 100 * label + k)
        (root / part / name / "notes.txt").write_text("x")
        (root / part / name / "._0.png").write_text("macOS")
