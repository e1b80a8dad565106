"""Reading of input files: every error becomes an error of this package that names the file.

Third-party readers raise exceptions of many types (``struct.error``, ``sqlite3.Error``,
``UnicodeDecodeError``, ``RecursionError`` …) for damaged bytes. :func:`reading` is used where a
file is opened and converts all of them to one class, so that callers need not know the types.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rbd_control.errors import RbdControlError
from rbd_control.wording import shortened

_MARK = "rbd_control_file"
"""Attribute of an exception with the file that was being processed."""

_REASON_LENGTH = 80
"""Maximum length of a reason from a third-party reader [characters]."""


@contextmanager
def about(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add ``path`` to each :class:`RbdControlError` raised inside the ``with`` block.

    The message of the error then begins with ``path``. An error that has a path already keeps it.
    Exceptions of other classes remember the path as well: :func:`concerned` returns it.
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
    """Return the path that :func:`about` has stored in an exception; empty without any.

    It is the file that was being processed when the exception was raised.
    """
    return str(vars(error).get(_MARK, ""))


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: type[RbdControlError], problem: str, remedy: str = ""
) -> Iterator[None]:
    """Convert each foreign exception raised inside the ``with`` block to ``kind``, naming ``path``.

    The message is ``path: problem (first line of the exception); remedy``. If the operating system
    cannot read the file, or memory runs out, it is ``path: cannot be read: cause`` instead.

    Args:
        path: the file that is being read.
        kind: class of the raised error.
        problem: what is wrong with the file if a reader raises, such as ``is not a CSV file``.
        remedy: advice to the user; may be empty.

    Raises:
        RbdControlError: raised inside, of its own class, with ``path`` if it had no path; of class
            ``kind``, for any other ``Exception`` raised inside.
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
    """Return the text ``cannot be read: REASON`` for an ``OSError`` or a ``MemoryError``."""
    if isinstance(error, MemoryError):
        return "cannot be read: it takes more memory than there is"
    return f"cannot be read: {reason(error)}"


def reason(error: Exception) -> str:
    """Return the cause of an exception as text of at most 80 characters.

    It is the first line of the exception's text, or the name of its class if it has no text. For an
    ``OSError`` it is the text of its error number, for a ``RecursionError`` ``nested too deeply``.
    """
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines() or [""]
    return shortened(lines[0].rstrip(".: "), _REASON_LENGTH) or type(error).__name__


def read_bounded(path: str | os.PathLike[str], limit: int, kind: type[RbdControlError]) -> bytes:
    """Return the whole content of a small file, or of a pipe.

    Args:
        path: the file; a device or a pipe is read until its end or until it exceeds the limit.
        limit: maximum size [bytes].
        kind: class of the raised error.

    Raises:
        RbdControlError: of class ``kind``, if the file cannot be read or is larger.
    """
    with reading(path, kind, "cannot be read"), open(path, "rb") as file:
        content = file.read(limit + 1)
        if len(content) > limit:
            raise kind(f"is larger than {limit / 1e6:g} MB, the most that is read")
        return content


def is_absent(path: str | os.PathLike[str]) -> bool:
    """Return whether there is no such file; False if this process may not look for it.

    A link that leads nowhere is not absent.
    """
    try:
        os.lstat(path)
    except PermissionError:
        return False
    except (OSError, ValueError):
        return True
    return False


def refuse_special(path: Path, kind: type[RbdControlError]) -> None:
    """Raise an error if a file does not exist, has no bytes, or is no regular file.

    A folder, a device, a pipe and a socket are no regular files; a link to a regular file is one.

    The check comes before the file is opened, because opening a pipe may block.

    Args:
        path: the file to be read.
        kind: class of the error.

    Raises:
        RbdControlError: of class ``kind``, naming the file and the reason.
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
    """Return whether an exception concerns the file as a whole, not its content."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and bool(error.strerror))
