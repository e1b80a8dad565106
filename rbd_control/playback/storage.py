"""The storage files of a rosbag2 recording, and their common interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Protocol

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import about, reading, refuse_special
from rbd_control.files.yaml_input import read_yaml
from rbd_control.playback.packed import Packed
from rbd_control.wording import listed, quoted

STORAGE_SUFFIXES = (".mcap", ".db3")
"""Suffixes of the storage files that are read."""

COMPRESSED = ".zstd"
"""Suffix that rosbag2 appends to a storage file that is compressed as a whole."""

METADATA = "metadata.yaml"
"""File of a rosbag2 folder that lists its storage files."""

_INFORMATION = "rosbag2_bagfile_information"


class Topic(NamedTuple):
    """A topic of a recording: type, serialisation format and number of its messages.

    Type or format is ``several types`` or ``several formats`` if it is not the same throughout.
    """

    msgtype: str
    encoding: str
    messages: int


class Storage(Protocol):
    """Interface of a storage file; every iteration opens the file anew and streams it.

    ``Bag._open`` in :mod:`~rbd_control.playback.bag` selects the class by the suffix of the file.

    Attributes:
        path: the file.
        topics: topics of the file by name.
    """

    path: Path
    topics: dict[str, Topic]

    def packed(self, topic: str, size: int) -> Iterator[Packed]:
        """Yield the serialized messages on ``topic`` in order of receipt.

        Args:
            topic: name of the topic.
            size: desired number of messages in each yielded object. A storage that reads chunks
                yields one chunk at a time instead.

        Raises:
            Exception: if the file is damaged. Libraries raise exceptions of many types; the caller
                must catch ``Exception`` and name the file.
        """
        ...


def storage_files(path: Path) -> list[Path]:
    """Return the storage files of a recording, each an ordinary file that is not empty.

    Args:
        path: a storage file, or a rosbag2 folder with or without ``metadata.yaml``. Only the list
            of storage files in ``metadata.yaml`` is used; everything else is read from the storage
            files.

    Returns:
        The files in the order of ``metadata.yaml``; without it, all in the folder, by name.

    Raises:
        RecordingError: naming the file that is missing, is empty or cannot be read, or the folder
            that contains no storage file.
    """
    if not path.is_dir():
        files = [path]
    elif (path / METADATA).exists():
        files = _listed_files(path)
    else:
        with reading(path, RecordingError, "cannot be read"):
            files = sorted(item for item in path.iterdir() if _is_storage(item))
        if not files:
            raise _named(
                path,
                f"is not a rosbag2 recording: it holds neither {METADATA} nor a file "
                f"{' or '.join(STORAGE_SUFFIXES)}",
            )
    for file in files:
        refuse_special(file, RecordingError)
    return files


def recorded_files(path: Path) -> list[Path]:
    """Return the files of a recording, which need not be readable.

    Args:
        path: the recording. For a folder, the result is ``metadata.yaml`` and all storage files in
            it; for any other path, it is the path itself.
    """
    if not os.path.isdir(path):  # Path.is_dir() raises an error for some unreadable paths
        return [path]
    with suppress(OSError):
        return [path / METADATA, *(item for item in path.iterdir() if _is_storage(item))]
    return []


def _is_storage(file: Path) -> bool:
    """Return whether a file has the suffix of a readable storage file."""
    return file.name.removesuffix(COMPRESSED).endswith(STORAGE_SUFFIXES)


def _listed_files(folder: Path) -> list[Path]:
    """Return the storage files that ``metadata.yaml`` of a folder lists."""
    metadata = folder / METADATA
    refuse_special(metadata, RecordingError)
    with about(metadata):
        information = read_yaml(metadata, RecordingError)
        listed_names: Any = information
        for key in (_INFORMATION, "relative_file_paths"):
            if not isinstance(listed_names, dict) or key not in listed_names:
                raise RecordingError(
                    f"has no {key!r}; remove this file to read the recording without it"
                )
            listed_names = listed_names[key]
        if not isinstance(listed_names, list) or not listed_names:
            raise RecordingError(
                f"'relative_file_paths' is {quoted(listed_names)}, not a list of files; remove "
                "this file to read the recording without it"
            )
        # Old versions of ROS 2 wrote the folder's own name before that of the file.
        files = [
            folder / PurePath(str(name)).name for name in dict.fromkeys(map(str, listed_names))
        ]
        odd = [file.name for file in files if not _is_storage(file)]
        if odd:
            raise RecordingError(
                f"lists {quoted(odd[0])}; only storage files {' and '.join(STORAGE_SUFFIXES)} "
                "are read"
            )
        missing = [file.name for file in files if not file.exists()]
        if missing:
            raise RecordingError(
                f"lists {listed(missing)}, which the folder does not hold; remove this file to "
                "read the recording without it"
            )
    return files


def _named(path: Path, message: str) -> RecordingError:
    error = RecordingError(message)
    error.path = str(path)
    return error
