"""Estimates of the adaptive control law: written to a file in the background, and read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import yaml

from rbd_control.control import Estimates
from rbd_control.errors import InputError
from rbd_control.nodes.guard import describe

LARGEST_FILE = 1_000_000
"""Maximum size of a file with estimates [bytes]; one link takes about 300."""


class EstimatesWriter:
    """Writes estimates to one file, in a thread, so that no torque waits for a disk.

    Args:
        path: the file; empty if the parameter ``estimates`` names none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread: Thread | None = None

    def write(self, estimates: Estimates, done: Callable[[str, bool], None]) -> None:
        """Start a thread that writes the file, and return at once.

        Args:
            estimates: inertial parameters and friction to write.
            done: called by the thread at the end with a message for the operator, and with whether
                the file was written.

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
            except Exception as error:  # The sender of the order waits for the answer.
                is_expected = isinstance(error, InputError)
                done(str(error) if is_expected else describe(error), False)
            else:
                done(f"written to {self._path}", True)

        self._thread = Thread(target=work, name="estimates", daemon=True)
        self._thread.start()


def write_estimates(path: str, estimates: Estimates) -> None:
    """Write estimates to a YAML file completely or not at all.

    The file is written under another name in the same folder and renamed, so that the old file
    stays complete until the new file is. A symbolic link is refused, because the new file
    would replace the link, and not the file that it names.

    Raises:
        InputError: naming the file and the reason, if the file cannot be written, is a symbolic
            link, or would be larger than :data:`LARGEST_FILE`.
    """
    text = yaml.safe_dump(estimates.to_dict(), sort_keys=False)
    if len(text) > LARGEST_FILE:
        raise InputError(f"cannot write {path}: {len(text)} bytes; at most {LARGEST_FILE}")
    target = Path(path)
    if target.is_symlink():
        raise InputError(f"cannot write {path}: it is a symbolic link; name the file itself")
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # The file gets the permissions of a new file, or those of the old file.
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError, ValueError):  # nothing is left after success
            unfinished.unlink()


def read_estimates(path: str) -> Estimates | None:
    """Read the file of the parameter ``estimates``; return None if it does not exist.

    Raises:
        InputError: if the file cannot be read, does not contain estimates, or is larger than
            :data:`LARGEST_FILE`.
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
