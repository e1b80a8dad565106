"""Decompression with limits, so that no recording fills the memory or the disk."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

from rbd_control.errors import RecordingError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of data compressed with zstd."""

_PIECE = 1 << 20
"""Number of bytes that are expanded at a time."""

_ALWAYS = 1 << 30
"""Expanded size that is always accepted [bytes]."""

_RATIO = 200
"""Expanded size per compressed size that is accepted in addition; joint states need 2 to 10."""


def expand(data: bytes | memoryview, compression: str, limit: int) -> bytes | memoryview:
    """Return ``data`` decompressed; return it without a copy if it is not compressed.

    Args:
        data: the compressed data.
        compression: ``zstd`` or ``lz4``; an empty text for data that is not compressed.
        limit: maximum size of the result [bytes].

    Raises:
        ValueError: if the result is larger or incomplete, or for another ``compression``.
        RecordingError: if the library for the compression is not installed.
        Exception: of the library, if the data is damaged.
    """
    if not compression:
        return data
    if compression not in ("zstd", "lz4"):
        raise ValueError(f"compression {compression!r} is not read, only zstd and lz4")
    decompressor = _decompressor(compression)
    result: bytes = decompressor.decompress(data, limit + 1)
    if len(result) > limit:
        raise ValueError(f"expands to more than {limit} bytes")
    if not decompressor.eof:
        raise ValueError("compressed data is cut short")
    return result


def expand_file(source: Path, target: Path) -> None:
    """Decompress a zstd file ``source`` to ``target``, which is replaced.

    Raises:
        ValueError: if the result exceeds 2^30 bytes plus 200 times the size of ``source``.
        EOFError: if ``source`` is cut short.
        RecordingError: if the library for zstd is not installed.
        OSError: if a file cannot be read or written.
        Exception: of the library, if the data is damaged.
    """
    limit = _ALWAYS + _RATIO * source.stat().st_size
    written = 0
    with _zstd().open(source, "rb") as file, target.open("wb") as output:
        while piece := file.read(_PIECE):
            written += output.write(piece)
            if written > limit:
                raise ValueError(f"expands more than {_RATIO}-fold")


def _decompressor(compression: str) -> Any:
    if compression == "lz4":
        return _imported("lz4.frame", "lz4").LZ4FrameDecompressor()
    return _zstd().ZstdDecompressor()


@cache  # Python searches all folders again for each import of a module that does not exist.
def _zstd() -> Any:
    """Return the module of the standard library, or the module installed with rosbags."""
    try:
        return importlib.import_module("compression.zstd")  # from Python 3.14 on
    except ModuleNotFoundError:
        return _imported("backports.zstd", "zstd")


def _imported(name: str, compression: str) -> Any:
    """Return a module of a package that is installed with rosbags.

    Raises:
        RecordingError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RecordingError(
            f"is compressed with {compression}, which needs a package to be read: pip install "
            f"rosbags; or convert the recording with 'ros2 bag convert'"
        ) from error
