"""Output files: written completely or not at all, checked before the work, never over an input."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES, EISDIR
from pathlib import Path
from typing import Any

from rbd_control.errors import InputError

_unfinished: set[str] = set()


def prepare_output(path: Path) -> None:
    """Create the folder of an output file, and raise an error if the file cannot be written.

    A folder that is created is printed. The file itself is neither created nor changed.

    Raises:
        OSError: naming the path, if the folder cannot be created, ``path`` is a folder, or this
            process has no permission to write; naming the folder, if it does not permit new files,
            with which :func:`write_whole` replaces existing files.
    """
    is_new = not path.parent.is_dir()
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_new:
        print(f"created {path.parent}")
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    target = Path(os.path.realpath(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(EACCES, os.strerror(EACCES), str(path))
    if path.exists() and _is_direct(path, target):
        return
    try:
        # Only a new file shows it: root has all permissions, also in /proc and on read-only disks.
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target.parent)) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; an existing file remains unchanged until the new file is complete.

    Devices and pipes are written to directly.

    Raises:
        OSError: naming the path, if the file cannot be written; no partial file remains.
    """
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{target.name[:200]}.{os.getpid()}.new")
    try:
        if _is_direct(path, target):
            path.write_bytes(content)
            return
        _unfinished.add(str(unfinished))
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        _remove(str(unfinished))


def write_json(content: Any, path: Path) -> None:
    """Write plain values to a JSON file, whose folder is created if it does not exist.

    Raises:
        OSError: naming the file that cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(path, f"{text}\n".encode("utf-8", errors="backslashreplace"))


def replaces_file(path: Path) -> bool:
    """Return whether :func:`write_whole` would replace an existing file, not write to a device."""
    return path.is_file() and not _is_direct(path, Path(os.path.realpath(path)))


def _is_direct(path: Path, target: Path) -> bool:
    """Return whether a path is a device or a pipe, which is written to without a new file.

    Args:
        path: the path as given.
        target: the file that it leads to, without links.
    """
    is_special = target.exists() and not target.is_file()
    return is_special or str(path).startswith(("/dev/", "/proc/"))


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


STANDARD_OUTPUT = Path("-")
"""The usual name of standard output; a file of this name can be given by its absolute path."""


@dataclass(frozen=True)
class NamedFile:
    """A file that a command reads or writes.

    Attributes:
        option: the option or argument that names it, as in the help: ``--json``, ``RECORDING``.
        path: its path; a relative path starts at the working directory.
        is_arm_file: whether it is an arm file; an output that is an arm file may replace the arm
            file of an input, because ``calibrate`` keeps its parameters.
    """

    option: str
    path: Path
    is_arm_file: bool = False


def refuse_clashes(inputs: Iterable[NamedFile], outputs: Iterable[NamedFile]) -> None:
    """Raise an error if an output is also an input or another output, or is named ``-``.

    Call it before the work.

    Files are compared by their real paths, so that links count as the files they lead to. Devices
    and pipes, such as ``/dev/null``, may occur several times. Inputs need not exist.

    Args:
        inputs: all files that the command reads.
        outputs: all files that the command writes.

    Raises:
        InputError: naming the file and both options.
    """
    readers: dict[str, list[NamedFile]] = {}
    for source in inputs:
        readers.setdefault(os.path.realpath(source.path), []).append(source)
    writers: dict[str, str] = {}
    for output in outputs:
        if output.path == STANDARD_OUTPUT:
            raise _refused(
                output.path,
                f"is no file: standard output takes the text of the command; give {output.option} "
                "the name of a file",
            )
        target = os.path.realpath(output.path)
        if os.path.exists(target) and not os.path.isfile(target):
            continue
        for reader in readers.get(target, ()):
            if not (reader.is_arm_file and output.is_arm_file):
                raise _refused(
                    output.path,
                    f"is an input ({reader.option}) and an output ({output.option}) of one "
                    "command; give another output",
                )
        if target in writers:
            raise _refused(
                output.path,
                f"is the output of both {writers[target]} and {output.option}; give each output a "
                "file of its own",
            )
        writers[target] = output.option


def _refused(path: Path, problem: str) -> InputError:
    error = InputError(problem)
    error.path = str(path)
    return error
