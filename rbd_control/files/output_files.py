"""Output files: written completely or not at all, and checked before the work begins."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from errno import EACCES, EISDIR
from pathlib import Path

_unfinished: set[str] = set()


def prepare_output(path: Path) -> None:
    """Create the folder of an output file, and raise an error if the file cannot be written.

    The file itself is neither created nor changed.

    Raises:
        OSError: naming the path, if the folder cannot be created, ``path`` is a folder, or this
            process has no permission to write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(EACCES, os.strerror(EACCES), str(path))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; an existing file remains unchanged until the new file is complete.

    Devices and pipes are written to directly.

    Raises:
        OSError: naming the path, if the file cannot be written; no partial file remains.
    """
    target = Path(os.path.realpath(path))
    direct = (target.exists() and not target.is_file()) or str(path).startswith(("/dev/", "/proc/"))
    unfinished = target.with_name(f".{target.name[:200]}.{os.getpid()}.new")
    try:
        if direct:
            path.write_bytes(content)
            return
        _unfinished.add(str(unfinished))
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        _remove(str(unfinished))


class ScratchFolder:
    """A temporary folder; it is removed with this object, or by :func:`remove_unfinished`.

    Attributes:
        path: the folder, which exists and is empty at first.

    Raises:
        OSError: from the constructor, if the folder cannot be created.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rbd_control_"))
        _unfinished.add(str(self.path))
        weakref.finalize(self, _remove, str(self.path))


def remove_unfinished() -> None:
    """Remove the temporary folders and incomplete files of this process; call it before exit."""
    for path in list(_unfinished):
        _remove(path)


def _remove(path: str) -> None:
    _unfinished.discard(path)
    with suppress(OSError):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
