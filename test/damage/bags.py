"""Sound rosbag2 recordings of every kind."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin

from damage import sound


@dataclass(frozen=True)
class Bags:
    """Sound recordings, and the messages they are made of."""

    folders: dict[str, Path]
    messages: list[tuple[int, bytes]]

    @classmethod
    def write(cls, root: Path) -> Bags:
        """Write sound recordings of every kind under ``root``."""
        motion = sound.swing(1.2)
        zstd = CompressionFormat.ZSTD
        kinds: dict[str, tuple[StoragePlugin, tuple[CompressionMode, CompressionFormat] | None]] = {
            "mcap": (StoragePlugin.MCAP, None),
            "mcap_zstd": (StoragePlugin.MCAP, (CompressionMode.STORAGE, zstd)),
            "mcap_file": (StoragePlugin.MCAP, (CompressionMode.FILE, zstd)),
            "db3": (StoragePlugin.SQLITE3, None),
            "db3_messages": (StoragePlugin.SQLITE3, (CompressionMode.MESSAGE, zstd)),
            "db3_file": (StoragePlugin.SQLITE3, (CompressionMode.FILE, zstd)),
        }
        folders = {
            name: sound.write_bag(root / name, motion, *kind) for name, kind in kinds.items()
        }
        return cls(folders, sound.messages(motion))

    def copy(self, kind: str, folder: Path) -> Path:
        """Copy a sound recording into ``folder``; the path of its folder."""
        return Path(shutil.copytree(self.folders[kind], folder / "bag"))

    def storage(self, kind: str) -> Path:
        """Return the storage file of a sound recording."""
        return next(f for f in self.folders[kind].iterdir() if f.name != "metadata.yaml")
