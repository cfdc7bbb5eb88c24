"""Images that stay files until a batch needs them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.utils.bounded_files import ContentError, read_bytes, reading

MAX_SIZE = 1024  # pixels a side: networks take up to some hundreds, and such an image has 3 MB

# The usual evaluation of ImageNet networks: shorter side 256, centre crop of 224 × 224.
CROP = 224
RESIZED = 256
# Pillow only warns of sizes like this; a file of a few kilobytes can claim gigabytes.
MAX_PIXELS = 64_000_000
# The longer side grows with the shorter one: a line of 6000 × 1 pixels would be resized to 1.6 GB.
MAX_RATIO = 64
MAX_FILE = 1 << 28
# Images of more pixels are decoded one at a time, so that threads do not multiply their memory.
_LARGE = 4_000_000
# Pillow can do more, some of it by running other programs (EPS).
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_THREADS = 8
_ORIENTATION = 0x0112  # the tag of EXIF
_PHOTOMETRIC, _WHITE_IS_ZERO = 0x0106, 0  # a tag of TIFF and one of its values
_MAX_16_BITS, _STEP_16_BITS = 65_535, 257  # 65,535 / 255


class ImageFiles:
    """`files[index]` decodes those images: uint8 [n, 3, size, size], always the same pixels.

    The shorter side is resized to size · 256 / 224 pixels and the middle size × size cut out;
    nothing is random. Names are kept as one string of bytes, so that a million of them take some
    tens of megabytes.

    Args:
        root: the folder that the names are relative to.
        names: the names of the files.
        size: height and width of the decoded images.
    """

    def __init__(self, root: Path | str, names: Iterable[str], size: int = CROP) -> None:
        if not isinstance(size, int) or not 1 <= size <= MAX_SIZE:
            raise ValueError(
                f"size must be an integer number of pixels from 1 to {MAX_SIZE:,}; got {size}."
            )
        self.root = Path(root)
        self.size = size
        blob, ends = bytearray(), []
        for name in names:
            blob += os.fsencode(name)
            ends.append(len(blob))
        self._names = bytes(blob)
        self._ends = np.array(ends, dtype=np.int64)
        self._pool: ThreadPoolExecutor | None = None
        self._one_large: Lock | None = None
        self._pool_process = 0

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def sample_shape(self) -> torch.Size:
        """The shape of one decoded image."""
        return torch.Size((3, self.size, self.size))

    def name(self, position: int) -> str:
        """The file of one sample, relative to the root."""
        start = self._ends[position - 1] if position else 0
        return os.fsdecode(self._names[start : self._ends[position]])

    def resized(self, size: int) -> ImageFiles:
        """The same files, decoded at another size."""
        other = ImageFiles(self.root, (), size)
        other._names, other._ends = self._names, self._ends
        return other

    def take(self, positions: Sequence[int] | np.ndarray) -> ImageFiles:
        """The files at some positions."""
        return ImageFiles(self.root, (self.name(int(each)) for each in positions), self.size)

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray | Tensor) -> Tensor:
        positions = np.arange(len(self))[index.cpu().numpy() if torch.is_tensor(index) else index]
        if positions.ndim == 0:
            return self._decode(int(positions))
        if positions.ndim != 1:
            raise ValueError(f"files[index] must get an index [n]; got {list(positions.shape)}.")
        images = torch.empty(len(positions), *self.sample_shape, dtype=torch.uint8)

        def fill(place: int) -> None:
            images[place] = self._decode(int(positions[place]))

        # list() waits for all of them, and raises what one of them raised.
        list(self._threads().map(fill, range(len(positions))))
        return images

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_pool": None, "_one_large": None}

    def _threads(self) -> ThreadPoolExecutor:
        # A forked process inherits the object but not its threads.
        if self._pool is None or self._pool_process != os.getpid():
            self._pool = ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1))
            self._pool_process = os.getpid()
            self._one_large = Lock()
        return self._pool

    def _decode(self, position: int) -> Tensor:
        try:
            from PIL import Image, UnidentifiedImageError
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'Image files need Pillow: pip install "ptd_ext[all]".'
            ) from None
        path = self.root / self.name(position)
        if not path.is_file():
            raise FileNotFoundError(f"The image {path} is listed, but there is no such file.")
        # Bytes in memory end where they end; of a file, Pillow asks for as many as a chunk claims.
        content = io.BytesIO(read_bytes(path, MAX_FILE))
        with reading(path, "an image"):
            try:
                image = Image.open(content, formats=FORMATS)
            except UnidentifiedImageError:
                kinds = ", ".join(FORMATS)
                raise ContentError(f"is damaged or not an image of these kinds: {kinds}") from None
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise ContentError(f"has {width} × {height} pixels, more than {MAX_PIXELS:,}")
            if max(width, height) > MAX_RATIO * min(width, height):
                raise ContentError(
                    f"must be at most {MAX_RATIO} times as long as it is wide; it has "
                    f"{width} × {height} pixels; crop it or leave it out"
                )
            large = self._one_large if width * height > _LARGE else None
            with large or nullcontext():
                return self._cropped(_upright(_as_rgb(image), image))

    def _cropped(self, image: Any) -> Tensor:
        from PIL.Image import Resampling

        width, height = image.size
        shorter = round(self.size * RESIZED / CROP)
        scale = shorter / min(width, height)
        wide, high = max(shorter, int(width * scale)), max(shorter, int(height * scale))
        left, top = round((wide - self.size) / 2), round((high - self.size) / 2)
        image = image.resize((wide, high), Resampling.BILINEAR)
        image = image.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _as_rgb(image: Any) -> Any:
    """The picture in 8 bits per channel, on white where it is transparent.

    `convert` would clip values of more bits, and show what a file holds under transparent pixels.
    """
    from PIL import Image

    image.load()
    # Pillow reads PNG and PPM files of 16 bits as I, which TIFF files of 32 bits share.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format != "TIFF"):
        pixels = np.asarray(image)
        if pixels.min() < 0 or pixels.max() > _MAX_16_BITS:
            raise ContentError("must have 8 or 16 bits per channel; its values exceed 16 bits")
        pixels = (pixels / _STEP_16_BITS).round().astype(np.uint8)
        # Of TIFF files whose zero is white, Pillow inverts those of 8 bits only.
        inverted = image.format == "TIFF" and image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
        return Image.fromarray(255 - pixels if inverted else pixels).convert("RGB")
    if image.mode in ("I", "F"):
        raise ContentError(
            "must have 8 bits per channel, or 16 without a sign; the range of its values is "
            "unknown. Convert it"
        )
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _upright(rgb: Any, image: Any) -> Any:
    """Apply the orientation that a camera wrote; Pillow has applied that of TIFF files."""
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata, over which Pillow raises whatever its parser meets
        return rgb
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return rgb.transpose(turns[orientation]) if orientation in turns else rgb
