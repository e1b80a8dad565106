"""Input files: every error that reading a file raises names the file and becomes one of ours.

The readers of third parties raise what they like (``struct.error``, ``sqlite3.Error``,
``UnicodeDecodeError``, ``RecursionError`` …) when the bytes are damaged. :func:`reading` stands
where a file is opened and turns all of them into one class, so that no caller needs to know them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rbd_control.errors import RbdControlError
from rbd_control.wording import shortened

_MARK = "rbd_control_file"
"""Attribute of an exception that holds the file that was being worked on."""

_REASON_LENGTH = 80
"""Longest reason that is taken over from a reader of a third party [characters]."""


@contextmanager
def about(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name ``path`` in every :class:`RbdControlError` raised inside, unless a file is named.

    Other exceptions are marked as concerning it, see :func:`concerned`.
    """
    try:
        yield
    except RbdControlError as error:
        error.path = error.path or os.fspath(path)
        raise
    except Exception as error:
        vars(error).setdefault(_MARK, os.fspath(path))
        raise


def concerned(error: Exception) -> str:
    """Return the file that was being worked on when an exception was raised; empty if unknown."""
    return str(vars(error).get(_MARK, ""))


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: type[RbdControlError], problem: str, remedy: str = ""
) -> Iterator[None]:
    """Turn every exception raised inside into ``kind`` that names ``path``.

    Args:
        path: the file that is being read.
        kind: the class of what is raised; a :class:`RbdControlError` keeps its own class.
        problem: what a foreign exception means, such as ``is not a CSV file``.
        remedy: what to do about it, appended to the message.

    Raises:
        RbdControlError: of class ``kind``, for any ``Exception`` raised inside.
    """
    try:
        with about(path):
            yield
    except RbdControlError:
        raise
    except Exception as error:
        if _is_of_the_system(error):
            named = kind(unreadable(error))
        else:
            named = kind(f"{problem} ({reason(error)})" + (f"; {remedy}" if remedy else ""))
        named.path = os.fspath(path)
        raise named from error


def unreadable(error: Exception) -> str:
    """Return what the operating system has against reading a file."""
    if isinstance(error, MemoryError):
        return "cannot be read: it takes more memory than there is"
    return f"cannot be read: {reason(error)}"


def reason(error: Exception) -> str:
    """Return the first line of an exception's text, shortened; its class when it has none."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines() or [""]
    return shortened(lines[0].rstrip(".: "), _REASON_LENGTH) or type(error).__name__


def read_bounded(path: str | os.PathLike[str], limit: int, kind: type[RbdControlError]) -> bytes:
    """Return the content of a small file, or of a pipe.

    Args:
        path: the file; a device or a pipe is read up to the limit as well.
        limit: greatest size that is read [bytes].
        kind: the class of what is raised.

    Raises:
        RbdControlError: of class ``kind``, when the file cannot be read or is larger.
    """
    with reading(path, kind, "cannot be read"), open(path, "rb") as file:
        content = file.read(limit + 1)
        if len(content) > limit:
            raise kind(f"is larger than {limit / 1e6:g} MB, the most that is read")
        return content


def refuse_special(path: Path, kind: type[RbdControlError]) -> None:
    """Refuse a path that is no ordinary file: opening a pipe or a device may never return.

    Raises:
        RbdControlError: of class ``kind``.
    """
    with reading(path, kind, "cannot be read"):
        if not path.exists():
            raise kind("is a link that leads nowhere" if path.is_symlink() else "does not exist")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a device, a pipe or a socket"
            raise kind(f"is {what}, not a file")
        if not path.stat().st_size:
            raise kind("is empty")


def _is_of_the_system(error: Exception) -> bool:
    """Return whether an exception is about the file as a whole, not about its content."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and bool(error.strerror))
