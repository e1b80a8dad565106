"""Reading of lines of CSV files with limits, and errors for files of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import reading

MAX_LINE = 1 << 20
"""Maximum length of a line [characters], enough for ten thousand columns."""

_MOST = 1 << 23
"""Number of characters at which a list of lines is yielded even if it has fewer lines."""

_STEP = 64
"""Number of lines that are read before their lengths are checked."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_csv(path: Path) -> Iterator[TextIO]:
    """Open a CSV file in UTF-8 for a ``with`` block; every error raised inside names the file.

    Raises:
        RecordingError: if the file cannot be read or is not UTF-8 text; any other exception raised
            inside is converted to it.
    """
    with reading(path, RecordingError, "is not a CSV file", "save it as comma-separated UTF-8"):
        with path.open("rb") as file:
            if file.read(2) in _UTF16:
                raise RecordingError("is in UTF-16; save it as UTF-8")
        with path.open(encoding="utf-8-sig", newline="") as text:
            yield text


def bounded_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, from its first line on.

    Raises:
        RecordingError: when a line is longer than :data:`MAX_LINE`.
    """
    for block in line_blocks(file, 1, 0):
        yield from block


def line_blocks(file: TextIO, size: int, before: int) -> Iterator[list[str]]:
    """Yield the lines of a file in lists of at least ``size`` lines.

    The last list, and lists of more than 8 million characters, may have fewer.

    Args:
        file: the open file.
        size: desired number of lines in a list.
        before: number of lines that were read from the file already, for the line in an error.

    Raises:
        RecordingError: when a line is longer than :data:`MAX_LINE`.
    """
    lines = iter(partial(file.readline, MAX_LINE + 1), "")
    step = min(size, _STEP)
    block: list[str] = []
    characters = 0
    while part := list(islice(lines, step)):
        lengths = list(map(len, part))
        if max(lengths) > MAX_LINE:
            number = (
                before
                + len(block)
                + 1
                + next(k for k, length in enumerate(lengths) if length > MAX_LINE)
            )
            raise RecordingError(
                f"line {number} is longer than {MAX_LINE} characters; is this a CSV file?"
            )
        block += part
        characters += sum(lengths)
        if len(block) >= size or characters >= _MOST:
            yield block
            before += len(block)
            block, characters = [], 0
    if block:
        yield block
