"""Clothing1M: lists of images with their labels."""

import pytest
import torch
from data.data_cases import picture

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.clothing1m import CLASS_NAMES

pytest.importorskip("PIL")


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
        assert d.class_names == CLASS_NAMES
        assert d.moments[0] == (0.485, 0.456, 0.406)
    (clothing / "category_names_eng.txt").write_text("\n".join("abcdefghijklmn"))
    assert data.load("clothing1m", clothing).class_names == tuple("abcdefghijklmn")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("noisy_label_kv.txt", "images/a.jpg 14\n", "line 1, must be .* 0 to 13; got 'images/a"),
        ("noisy_label_kv.txt", "\nimages/a.jpg\n", "line 2, must be"),
        ("clean_test_key_list.txt", "images/b.jpg\n", r"no label for images/b\.jpg"),
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
