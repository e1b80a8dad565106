"""Lines of CSV files with bounds, and what a file that is no CSV of ours looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

from rbd_control.errors import RecordingError
from rbd_control.input_files import reading

MAX_LINE = 1 << 20
"""Longest line that is read [characters]: more than ten thousand columns."""

_MOST = 1 << 23
"""Characters that are handed on at a time, at the most."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_csv(path: Path) -> Iterator[TextIO]:
    """Open a CSV file in UTF-8; every error raised inside names the file.

    Raises:
        RecordingError: when the file cannot be read or is no text in UTF-8.
    """
    with reading(path, RecordingError, "is not a CSV file", "save it as comma-separated UTF-8"):
        with path.open("rb") as file:
            if file.read(2) in _UTF16:
                raise RecordingError("is in UTF-16; save it as UTF-8")
        with path.open(encoding="utf-8-sig", newline="") as text:
            yield text


def bounded_lines(file: TextIO, before: int = 0) -> Iterator[str]:
    """Yield the lines of a file.

    Args:
        file: the open file.
        before: how many of its lines have been read already.

    Raises:
        RecordingError: when a line is longer than :data:`MAX_LINE`.
    """
    number = before
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise RecordingError(
                f"line {number} is longer than {MAX_LINE} characters; is this a CSV file?"
            )
        yield line


def line_blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Yield lines ``size`` at a time, fewer where they are very long."""
    while first := next(lines, ""):
        most = max(1, min(size, _MOST // max(len(first), 1)))
        yield [first, *islice(lines, most - 1)]
