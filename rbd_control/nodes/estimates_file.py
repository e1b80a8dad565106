"""Estimates of the adaptive law, written to a file in the background."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import yaml

from rbd_control.control import Estimates
from rbd_control.errors import InputError

LARGEST_FILE = 1_000_000
"""Maximum size of a file with estimates [bytes]; one link takes about 300."""


class EstimatesWriter:
    """Writes estimates to one file, in a thread, so that no torque waits for a disk.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread: Thread | None = None

    def write(self, estimates: Estimates, done: Callable[[str, bool], None]) -> None:
        """Start to write; the thread calls ``done(message, success)`` at the end.

        Raises:
            InputError: without a path, and while the last file is still being written.
        """
        if not self._path:
            raise InputError("parameter estimates names no file to write to")
        if self._thread is not None and self._thread.is_alive():
            raise InputError(f"{self._path} is still being written")

        def work() -> None:
            try:
                write_estimates(self._path, estimates)
            except InputError as error:
                done(str(error), False)
            else:
                done(f"written to {self._path}", True)

        self._thread = Thread(target=work, name="estimates", daemon=True)
        self._thread.start()


def write_estimates(path: str, estimates: Estimates) -> None:
    """Write a YAML file completely or not at all.

    The file is written under another name in the same folder and renamed, so that the old file
    stays complete until the new file is. A symbolic link is refused, because it would write to
    another place than the parameter states.

    Raises:
        InputError: naming the file and the reason.
    """
    text = yaml.safe_dump(estimates.to_dict(), sort_keys=False)
    if len(text) > LARGEST_FILE:
        raise InputError(f"cannot write {path}: {len(text)} bytes; at most {LARGEST_FILE}")
    target = Path(path)
    if target.is_symlink():
        raise InputError(f"cannot write {path}: it is a symbolic link; name the file itself")
    unfinished = ""
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        if unfinished:
            Path(unfinished).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def read_estimates(path: str) -> Estimates | None:
    """Read the file of the parameter ``estimates``; return None if it does not exist.

    Raises:
        InputError: if the file does not contain estimates, or is larger than :data:`LARGEST_FILE`.
    """
    try:
        size = Path(path).stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read estimates from {path}: {error.strerror}") from error
    if size > LARGEST_FILE:
        raise InputError(
            f"cannot read estimates from {path}: {size} bytes; at most {LARGEST_FILE} are read"
        )
    return Estimates.load(path)
