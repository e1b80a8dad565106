"""Search for recordings in files, folders and glob patterns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from rbd_control.errors import InputError
from rbd_control.playback.bag import COMPRESSED, METADATA, ROS1_SUFFIX, STORAGE_SUFFIXES

_CSV = ".csv"


def find_recordings(given: Sequence[Path], besides: Sequence[Path] = ()) -> list[Path]:
    """Return the absolute paths of all recordings in the given files and folders, each once.

    A folder with ``metadata.yaml`` is one recording. Any other folder is searched: each folder with
    ``metadata.yaml`` in it, and each other ``.mcap``, ``.db3``, ``.bag`` or ``.csv`` file, is a
    recording, also a compressed ``.mcap.zstd`` or ``.db3.zstd`` file. Hidden files and folders are
    left out, and links to folders are not followed.

    The paths have the order of ``given``. Matches of a pattern are sorted; the files of a searched
    folder, sorted by name, precede its sub-folders, also sorted.

    Args:
        given: files, folders and glob patterns (``**`` for any folders). A file that is named, or
            that matches a pattern, is kept with any suffix. A path that does not exist is kept as
            well, so that a later error names it.
        besides: files to leave out because they are not recordings, such as labels.

    Raises:
        InputError: when an element of ``given`` yields no recording.
    """
    found: dict[str, Path] = {}
    left_out = {os.path.realpath(path) for path in besides}
    for path in given:
        each = [
            recording
            for match in _matches(path)
            for recording in _below(match)
            if os.path.realpath(recording) not in left_out
        ]
        if not each:
            raise InputError(
                f"no recording in {path}; give recordings, folders of them or patterns"
            )
        for recording in each:
            found.setdefault(os.path.realpath(recording), Path(os.path.abspath(recording)))
    return list(found.values())


def _matches(path: Path) -> list[Path]:
    """Return the matches of a pattern; a path that is not a pattern is returned unchanged."""
    if path.exists() or not has_magic(str(path)):
        return [path]
    return [Path(match) for match in sorted(glob(str(path), recursive=True))]


def _below(path: Path) -> Iterator[Path]:
    """Yield the recordings in a folder that is not a recording; yield any other path unchanged."""
    if not path.is_dir() or (path / METADATA).exists():
        yield path
        return
    for folder, folders, files in os.walk(path):
        if METADATA in files:
            folders.clear()
            yield Path(folder)
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and _is_recording(name):
                yield Path(folder, name)


def _is_recording(name: str) -> bool:
    suffix = Path(name.removesuffix(COMPRESSED)).suffix
    return suffix in (*STORAGE_SUFFIXES, ROS1_SUFFIX) or name.lower().endswith(_CSV)
