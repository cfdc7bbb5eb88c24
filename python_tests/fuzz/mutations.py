"""Damage to files: of their bytes as they are, and within what a checksum or compression guards."""

import gzip
import hashlib
import io
import json
import random
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

EXTREMES = [0, 1, 2, 127, 128, 255, 256, 65535, 65536, 1 << 24, 1 << 28, (1 << 31) - 1, 1 << 31]
EXTREMES += [(1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
NUMBERS = [b"0", b"-1", b"1e308", b"nan", b"inf", b"1.9", b"99999999999", b"9" * 30, b"9" * 5000]
LARGEST = 1 << 20


def mutated(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """`data` with one to three kinds of damage; `other` is what splices are taken from."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(KINDS)(data, other, chance)[:LARGEST]
    return data


def _range(data: bytes, chance: random.Random, longest: int = 64) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randint(1, longest))


def flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def truncate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    source = chance.choice((data, other))
    (start, end), (first, last) = _range(data, chance, 512), _range(source, chance, 512)
    return data[:start] + source[first:last] + data[end:]


def delete(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _range(data, chance)
    return data[:start] + data[end:]


def repeat(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _range(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 3, 100, 3000)) + data[end:]


def extreme(data: bytes, other: bytes, chance: random.Random) -> bytes:
    size = chance.choice((1, 2, 4, 8))
    # Numbers that matter stand in headers, which are near the ends of a file.
    near = chance.choice((64, 512, len(data) or 1))
    start = min(chance.randrange(near), max(len(data) - size, 0))
    if chance.random() < 0.3:
        start = max(len(data) - size - start, 0)
    value = chance.choice(EXTREMES) % (1 << (8 * size))
    return (
        data[:start] + value.to_bytes(size, chance.choice(("little", "big"))) + data[start + size :]
    )


def number(data: bytes, other: bytes, chance: random.Random) -> bytes:
    found = list(re.finditer(rb"[0-9]+", data[:65536]))
    if not found:
        return extreme(data, other, chance)
    match = chance.choice(found)
    return data[: match.start()] + chance.choice(NUMBERS) + data[match.end() :]


def digits(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Makes a number as large as its width allows; 7 is a digit of octal ones too."""
    found = list(re.finditer(rb"[0-9]+", data[:65536]))
    if not found:
        return extreme(data, other, chance)
    match = chance.choice(found)
    largest = chance.choice((b"7", b"9")) * len(match[0])
    return data[: match.start()] + largest + data[match.end() :]


KINDS = [flip, truncate, splice, delete, repeat, extreme, extreme, number, digits]
Damage = Callable[[bytes], bytes]


def within_gzip(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    return gzip.compress(damage(gzip.decompress(data)), 1)


def within_zip(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen, out = chance.randrange(len(members)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for index, (info, content) in enumerate(members):
            content = damage(content) if index == chosen else content
            archive.writestr(info.filename, content, info.compress_type)
    return out.getvalue()


def within_tar(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    """Damages the plain archive, and gives every header a checksum that fits."""
    packed = data[:2] == b"\x1f\x8b"
    content = bytearray(gzip.decompress(data) if packed else data)
    if chance.random() < 0.5:
        content[:] = damage(bytes(content))
    else:
        # A header is little of an archive, and all that its reader believes.
        headers = [k for k in range(0, len(content), 512) if content[k + 257 : k + 262] == b"ustar"]
        start = chance.choice(headers)
        content[start : start + 512] = damage(bytes(content[start : start + 512]))[:512].ljust(512)
    for start in range(0, len(content) - 511, 512):
        if content[start + 257 : start + 262] == b"ustar":
            block = content[start : start + 512]
            block[148:156] = b" " * 8
            content[start + 148 : start + 156] = b"%06o\0 " % sum(block)
    return gzip.compress(content, 1) if packed else bytes(content)


def within_tar_member(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [(m, archive.extractfile(m).read()) for m in archive if m.isfile()]
    chosen, out = chance.randrange(len(members)), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for index, (member, content) in enumerate(members):
            content = damage(content) if index == chosen else content
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def within_matlab(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    """Damages one compressed variable."""
    parts, start = [], 128
    while start + 8 <= len(data):
        kind, size = struct.unpack("<II", data[start : start + 8])
        parts.append((kind, data[start + 8 : start + 8 + size]))
        start += 8 + size
    packed = [index for index, (kind, _) in enumerate(parts) if kind == 15]
    if not packed:
        return damage(data)
    chosen = chance.choice(packed)
    parts[chosen] = 15, zlib.compress(damage(zlib.decompress(parts[chosen][1])), 1)
    return data[:128] + b"".join(struct.pack("<II", k, len(body)) + body for k, body in parts)


def within_safetensors(data: bytes, damage: Damage, chance: random.Random) -> bytes:
    """Damages numbers, shapes or words, and writes the checksum of the result."""
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], data[8 + size :]
    if chance.random() < 0.5:
        body = damage(body)[: len(body)].ljust(len(body), b"\0")
    else:
        header = damage(header)
    changed = len(header).to_bytes(8, "little") + header + body
    try:
        tensors = load(changed)
        words = json.loads(json.loads(header)["__metadata__"]["ptd_ext"])
        total = hashlib.sha256(json.dumps(words["about"], sort_keys=True).encode())
        for name in sorted(tensors):
            tensor = tensors[name]
            total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            total.update(save({"": tensor})[-tensor.nbytes :] if tensor.nbytes else b"")
        words["sha256"] = total.hexdigest()
        return save(tensors, {"ptd_ext": json.dumps(words)})
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, RuntimeError):
        return changed
