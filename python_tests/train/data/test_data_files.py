"""Images that are decoded on the fly: ImageFiles, folders of images, Clothing1M."""

import pickle
import time

import numpy as np
import pytest
import torch

from ptd_ext.train import data
from ptd_ext.train.data import image_files
from ptd_ext.train.data.image_files import ImageFiles

Image = pytest.importorskip("PIL.Image")


def picture(path, value, size=(30, 20), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 10, 20)).save(path)


@pytest.fixture
def files(tmp_path):
    for k in range(6):
        picture(tmp_path / f"ü{k}.png", 40 * k)
    return ImageFiles(tmp_path, [f"ü{k}.png" for k in range(6)], 16)


def test_indices(files):
    assert len(files) == 6
    assert files[torch.tensor([5, 0, 5])][:, 0, 8, 8].tolist() == [200, 0, 200]
    assert files[2:4].shape == (2, 3, 16, 16)
    assert files[2:4].dtype == torch.uint8
    assert files[[-1]][0, :, 0, 0].tolist() == [200, 10, 20]
    assert files[1].shape == (3, 16, 16)
    assert files[torch.arange(6) > 3].shape == (2, 3, 16, 16)
    assert files[torch.empty(0, dtype=torch.int64)].shape == (0, 3, 16, 16)
    assert files.name(3) == "ü3.png"
    with pytest.raises(IndexError):
        files[torch.tensor([6])]
    assert torch.equal(pickle.loads(pickle.dumps(files))[:], files[:])


@pytest.mark.parametrize(("size", "shape"), [(224, (500, 300)), (224, (225, 400)), (32, (40, 40))])
def test_the_middle_is_cut_out(tmp_path, size, shape):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (shape[1], shape[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    shorter = round(size * 256 / 224)
    scale = shorter / min(shape)
    resized = Image.fromarray(pixels).resize(
        (max(shorter, int(shape[0] * scale)), max(shorter, int(shape[1] * scale))),
        Image.Resampling.BILINEAR,
    )
    left, top = round((resized.width - size) / 2), round((resized.height - size) / 2)
    expected = np.array(resized)[top : top + size, left : left + size]
    result = ImageFiles(tmp_path, ["a.png"], size)[0]
    assert (result.permute(1, 2, 0).numpy() == expected).all()


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "RGBA", "CMYK"])
def test_modes(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (20, 20), (9, 9, 9)).convert(mode).save(path)
    assert ImageFiles(tmp_path, [path.name], 8)[:].shape == (1, 3, 8, 8)


def test_damaged_and_missing_files_are_named(tmp_path, files, monkeypatch):
    (tmp_path / "ü3.png").write_bytes((tmp_path / "ü3.png").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"ü3\.png is cut off, damaged or not an image"):
        files[:]
    (tmp_path / "ü3.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"ü3\.png is listed"):
        files[:]
    monkeypatch.setattr(image_files, "MAX_PIXELS", 500)
    with pytest.raises(ValueError, match="30 × 20 pixels, more than 500"):
        files[0]
    for size in (0, 1025, 1_000_000):
        with pytest.raises(ValueError, match="a whole number of pixels from 1 to 1,024"):
            ImageFiles(tmp_path, [], size)


def test_large_images_are_decoded_one_at_a_time(files, monkeypatch):
    monkeypatch.setattr(image_files, "_LARGE", 100)
    monkeypatch.setattr(image_files, "_THREADS", 4)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    running, most = [], []
    crop = ImageFiles._cropped

    def slow(self, image):
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)
        running.pop()
        return crop(self, image)

    monkeypatch.setattr(ImageFiles, "_cropped", slow)
    files[:]
    assert most == [1] * 6
    monkeypatch.setattr(image_files, "_LARGE", 10_000)
    files[:]
    assert max(most) > 1


def test_many_names_take_little_memory():
    many = ImageFiles("/", (f"images/0/00/{k},{k}.jpg" for k in range(10_000)))
    assert len(many._names) + many._ends.nbytes < 10_000 * 40
    assert many.name(9_999) == "images/0/00/9999,9999.jpg"


def folder_part(root, part, classes=("ant", "bee"), count=3):
    for label, name in enumerate(classes):
        for k in range(count):
            picture(root / part / name / f"{k}.png", 100 * label + k)
        (root / part / name / "notes.txt").write_text("x")
        (root / part / name / "._0.png").write_text("macOS")


def test_image_folder_with_parts(tmp_path):
    folder_part(tmp_path, "train")
    folder_part(tmp_path, "val", count=1)
    d = data.load("image_folder", tmp_path, size=8)
    assert d.class_names == ("ant", "bee")
    assert d.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert d.train_inputs[:][:, 0, 4, 4].tolist() == [0, 1, 2, 100, 101, 102]
    assert d.test_labels.tolist() == [0, 1]
    assert d.validation is None
    assert d.sample_shape == (3, 8, 8)
    folder_part(tmp_path, "test", count=2)
    d = data.load("image_folder", tmp_path)
    assert d.test_labels.tolist() == [0, 0, 1, 1]
    assert d.validation.tolist() == [6, 7]
    assert d.train_labels[d.validation].tolist() == [0, 1]
    assert d.sample_shape == (3, 224, 224)


def test_image_folder_is_split(tmp_path):
    folder_part(tmp_path, ".", count=10)
    picture(tmp_path / "ant" / "deeper" / "x.JPG", 5)
    d = data.load("image_folder", tmp_path, size=8)
    assert (len(d.train_inputs), len(d.test_inputs)) == (17, 4)
    features = d.noise_features()
    assert features.shape == (17, 3 * 32 * 32)
    assert ((features[:, 0] >= 100).long() == d.train_labels).all()


def test_image_folder_mistakes(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not one"):
        data.load("image_folder", tmp_path / "none")
    with pytest.raises(ValueError, match="a folder for each of two or more classes"):
        data.load("image_folder", tmp_path)
    folder_part(tmp_path, "train")
    folder_part(tmp_path, "test", classes=("ant", "cow"))
    with pytest.raises(ValueError, match=r"cow is a class that .*train has not"):
        data.load("image_folder", tmp_path)


@pytest.fixture
def clothing(tmp_path):
    root = tmp_path / "clothing1m"
    noisy = {f"images/0/{k:02}/{k},{k}.jpg": k % 14 for k in range(5)}
    clean = {f"images/1/{k:02}/{k},{k}.jpg": 13 - k for k in range(3)}
    for key in (*noisy, *clean):
        picture(root / key, 50)
    (root / "noisy_train_key_list.txt").write_text("\n".join(reversed(noisy)) + "\n")
    (root / "clean_test_key_list.txt").write_text("\n".join(clean) + "\n")
    for kind, table in (("noisy", noisy), ("clean", clean)):
        lines = "".join(f"{key} {label}\n" for key, label in table.items())
        (root / f"{kind}_label_kv.txt").write_text(lines)
    return root


def test_clothing1m(clothing):
    for root in (clothing, clothing.parent):
        d = data.load("clothing1m", root)
        assert d.noisy
        assert d.clean_labels is None
        assert d.train_labels.tolist() == [4, 3, 2, 1, 0]
        assert d.test_labels.tolist() == [13, 12, 11]
        assert d.train_inputs[torch.tensor([4, 1])].shape == (2, 3, 224, 224)
        assert d.class_names[0] == "T-Shirt"
        assert d.mean == (0.485, 0.456, 0.406)
    (clothing / "category_names_eng.txt").write_text("\n".join("abcdefghijklmn"))
    assert data.load("clothing1m", clothing).class_names == tuple("abcdefghijklmn")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("noisy_label_kv.txt", "images/a.jpg 14\n", "line 1, must be .* 0 to 13; got 'images/a"),
        ("noisy_label_kv.txt", "\nimages/a.jpg\n", "line 2, must be"),
        ("clean_test_key_list.txt", "images/b.jpg\n", r"no label of images/b\.jpg"),
        ("clean_test_key_list.txt", "../b.jpg\n", "names a file elsewhere"),
        ("clean_test_key_list.txt", "\n", "is empty"),
        ("category_names_eng.txt", "a\nb\n", "14 classes; it names 2"),
    ],
)
def test_clothing1m_wrong_content(clothing, name, text, message):
    (clothing / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        data.load("clothing1m", clothing)


def test_clothing1m_missing(clothing, tmp_path):
    (clothing / "images/0/04/4,4.jpg").unlink()
    with pytest.raises(data.MissingFileError, match=r"images/0/04/4,4\.jpg"):
        data.load("clothing1m", clothing)
    (clothing / "clean_label_kv.txt").unlink()
    with pytest.raises(data.MissingFileError, match=r"clean_label_kv\.txt.*Cysu/noisy_label"):
        data.load("clothing1m", clothing)
    with pytest.raises(data.MissingFileError, match=r"noisy_train_key_list\.txt.*Clothing1M"):
        data.load("clothing1m", tmp_path / "none")
