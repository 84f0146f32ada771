"""Checkpoints of the example workloads: one file, whole or not there at all.

A line of JSON (what it belongs to, how far it is, names and lengths of the arrays, their checksum), then the arrays as doubles. The file is
written beside its place, brought to the disk and renamed, so that a job killed at any moment leaves the previous checkpoint or the new one.
"""

import array
import json
import os
import pathlib
import sys
import zlib

FORMAT = "rota-example-checkpoint"
VERSION = 1


class CheckpointError(Exception):
    """A checkpoint that cannot be used."""


def write(path, header, arrays):
    """Writes a checkpoint; `arrays` are lists of numbers by name."""
    path = pathlib.Path(path)
    body = b"".join(_little_endian(array.array("d", numbers)).tobytes() for numbers in arrays.values())
    lengths = [[name, len(numbers)] for name, numbers in arrays.items()]
    header = {"format": FORMAT, "version": VERSION, **header, "arrays": lengths, "crc32": zlib.crc32(body)}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path):
    """The header and the arrays of a checkpoint, or None if there is no such file."""
    try:
        content = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        return None
    first, _, body = content.partition(b"\n")
    try:
        header = json.loads(first)
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError("another format")
        if zlib.crc32(body) != header["crc32"] or len(body) != 8 * sum(length for _, length in header["arrays"]):
            raise ValueError("damaged content")
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is no checkpoint of these examples: {error}") from error
    arrays, offset = {}, 0
    for name, length in header["arrays"]:
        numbers = array.array("d")
        numbers.frombytes(body[offset : offset + 8 * length])
        arrays[name] = _little_endian(numbers)
        offset += 8 * length
    return header, arrays


def _little_endian(numbers):
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
