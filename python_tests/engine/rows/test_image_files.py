"""Images that are decoded on the fly: ImageFiles, folders of images, Clothing1M."""

import pickle
import struct
import time

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows import image_files
from ptd_ext.engine.rows.image_files import ImageFiles

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


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "P", "PA", "RGBA", "CMYK", "YCbCr"])
def test_every_mode_shows_the_same(tmp_path, mode):
    """Left half black, right half white."""
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:, 10:] = 255
    image = Image.fromarray(pixels)
    # Pillow makes this mode of that one only.
    image = image.convert("LA").convert("PA") if mode == "PA" else image.convert(mode)
    path = tmp_path / ("a.tiff" if mode in ("CMYK", "YCbCr", "PA") else "a.png")
    try:
        image.save(path)
    except (OSError, KeyError):
        pytest.skip(f"Pillow writes no {mode}")
    found = ImageFiles(tmp_path, [path.name], 8)[0]
    assert found.dtype == torch.uint8
    assert (found[:, :, :3] <= 1).all()
    assert (found[:, :, 5:] >= 254).all()


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
        with pytest.raises(ValueError, match="an integer number of pixels from 1 to 1,024"):
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


@pytest.mark.parametrize("ending", ["png", "tiff", "pgm"])
def test_16_bit_grey_is_scaled(tmp_path, ending):
    """Clipping at 255 would make nearly all of it white."""
    ramp = np.tile(np.linspace(0, 65535, 32, dtype=np.uint16), (32, 1))
    Image.fromarray(ramp).save(tmp_path / f"a.{ending}")
    found = ImageFiles(tmp_path, [f"a.{ending}"], 28)[0].float()
    Image.fromarray((ramp / 257).round().astype(np.uint8)).save(tmp_path / "b.png")
    expected = ImageFiles(tmp_path, ["b.png"], 28)[0].float()
    assert torch.equal(found, expected)
    assert found[:, :, 0].max() < 32
    assert found[:, :, -1].min() > 223


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_tiff_files_without_a_known_range_are_rejected(tmp_path, dtype):
    Image.fromarray(np.ones((8, 8), dtype)).save(tmp_path / "a.tiff")
    with pytest.raises(ValueError, match=r"a\.tiff must have 8 bits per channel, or 16 without a"):
        ImageFiles(tmp_path, ["a.tiff"], 8)[0]


def write_tiff(path, pixels, photometric):
    """A TIFF file of 16 bits per pixel; Pillow cannot write one whose zero is white."""
    height, width = pixels.shape
    content = pixels.astype("<u2").tobytes()
    tags = {256: width, 257: height, 258: 16, 259: 1, 262: photometric, 273: 8, 277: 1}
    tags |= {278: height, 279: len(content)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    header = b"II*\0" + struct.pack("<I", 8 + len(content))
    path.write_bytes(header + content + struct.pack("<H", len(tags)) + entries + bytes(4))


def test_zero_is_white_where_a_tiff_file_declares_it(tmp_path):
    ramp = np.tile(np.linspace(0, 65535, 32, dtype=np.uint16), (32, 1))
    write_tiff(tmp_path / "black.tif", ramp, 1)
    write_tiff(tmp_path / "white.tif", ramp, 0)
    black, white = ImageFiles(tmp_path, ["black.tif", "white.tif"], 28)[:].float()
    assert black[:, :, 0].max() < 32
    torch.testing.assert_close(white, 255 - black, rtol=0, atol=1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L"])
@pytest.mark.parametrize("hidden", [0, 90])
@pytest.mark.filterwarnings("error")
def test_transparent_pixels_are_white(tmp_path, mode, hidden):
    """Whatever grey a file holds there: the shape may be in the transparency alone."""
    grey = np.full((16, 16), hidden, np.uint8)
    grey[:, 8:] = 30
    opaque = Image.fromarray(np.where(grey == 30, 255, 0).astype(np.uint8))
    options = {}
    if mode in ("RGBA", "LA"):
        image = Image.merge("LA", (Image.fromarray(grey), opaque)).convert(mode)
    else:
        image = Image.fromarray(grey).convert(mode)
        # One transparent colour, or the transparency of each colour of a palette.
        value = image.getpixel((0, 0))
        options["transparency"] = value if mode == "L" else bytes([255] * value + [0])
        if mode == "P" and value < image.getpixel((15, 0)):
            options["transparency"] += b"\xff" * 255
    image.save(tmp_path / "a.png", **options)
    found = ImageFiles(tmp_path, ["a.png"], 14)[0]
    assert (found[:, :, :5] == 255).all()
    assert (found[:, :, 9:] == 30).all()


@pytest.mark.parametrize("ending", ["jpg", "png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(tmp_path, ending, orientation):
    from PIL import ImageOps, features

    if ending == "webp" and not features.check("webp"):
        pytest.skip("Pillow without WebP")
    pixels = np.zeros((24, 32, 3), np.uint8)
    pixels[:12, :16, 0], pixels[:12, 16:, 1], pixels[12:, :16, 2] = 250, 250, 250
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / f"a.{ending}", exif=exif)
    with Image.open(tmp_path / f"a.{ending}") as image:
        ImageOps.exif_transpose(image).convert("RGB").save(tmp_path / "b.png")
    files = ImageFiles(tmp_path, [f"a.{ending}", "b.png"], 16)
    assert torch.equal(files[0], files[1])


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_metadata_do_not_matter(tmp_path):
    Image.new("RGB", (8, 8), (9, 9, 9)).save(
        tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff"
    )
    assert ImageFiles(tmp_path, ["a.jpg"], 8)[0].float().mean() == pytest.approx(9, abs=1)
