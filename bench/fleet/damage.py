"""Five ways to damage a recording; each function takes the folder of a rosbag2 recording (mcap)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def _storage(recording: Path) -> Path:
    return next(recording.glob("*.mcap"))


def cut_short(recording: Path) -> None:
    """Cut the storage file in the middle, as when the disk is full."""
    file = _storage(recording)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def emptied(recording: Path) -> None:
    """Leave an empty storage file, as when the recorder is killed at once."""
    _storage(recording).write_bytes(b"")


def overwritten(recording: Path) -> None:
    """Overwrite a block in the middle of the storage file with zeros."""
    file = _storage(recording)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    file.write_bytes(content)


def without_storage(recording: Path) -> None:
    """Remove the storage file, which ``metadata.yaml`` still lists."""
    _storage(recording).unlink()


def another_file(recording: Path) -> None:
    """Replace the content of the storage file by an HTML text."""
    _storage(recording).write_text("<html>404: not found</html>\n", encoding="utf-8")


DAMAGES: tuple[Callable[[Path], None], ...] = (
    cut_short,
    emptied,
    overwritten,
    without_storage,
    another_file,
)
