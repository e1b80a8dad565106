"""Damaged rosbag2 recordings: storage files, metadata and messages."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import lz4.frame
import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin

from damage import raw, sound
from damage.mcap_writer import Lies


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


def damaged_storage(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Damage the bytes of a storage file, in its folder, without metadata or bare."""
    kind = list(bags.folders)[int(rng.integers(len(bags.folders)))]
    path = bags.copy(kind, folder)
    storage = path / bags.storage(kind).name
    storage.write_bytes(raw.any_damage(rng, storage.read_bytes()))
    form = int(rng.integers(3))
    if form == 0:
        return path
    if form == 1 or storage.suffix == ".zstd":
        (path / "metadata.yaml").unlink()
        return path
    return storage


HUGE = 2**62
MCAP_LIES: tuple[Lies, ...] = (
    {"magic": b"\x89MCAP1\r\n"},
    {"profile": b"ros1"},
    {"msgtype": b"sensor_msgs/msg/Image"},
    {"encoding": b"json"},
    {"topic": b"/jo\nint\x1b[31m" * 50},
    {"topic": b"\xff\xff"},
    {"compression": b"snappy"},
    {"compression": b"lz4", "compress": lambda x: lz4.frame.compress(x + bytes(1 << 26))},
    {"uncompressed_size": HUGE},
    {"chunk_size": HUGE},
    {"crc": 1},
    {"chunk_offset": 10**9},
    {"chunk_channels": ()},
    {"message_size": 2**64 - 1},
    {"message_channel": 9},
    {"summary_start": HUGE},
    {"summary_start": 0, "without_chunks": True},
)
"""Lies of each kind of record; rosbags reads them, and its errors must become one line."""


def odd_messages(messages: list[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the messages with one of them odd."""
    time, whole = messages[50]
    now = time * 1e-9
    odd = (
        (time, b""),
        (time, whole[:4]),
        (time, whole[:90]),
        (time, whole + bytes(1 << 19)),
        (time, b"\x07\x07" + whole[2:]),
        (time, b"\x28\xb5\x2f\xfd" + whole),
        (2**63 - 1, whole),
        (time, sound.joint_state(now, [0.1], [0.2, 0.3], [])),
        (time, sound.joint_state(now, [], [], [], names=())),
        (time, sound.joint_state(now, [1.0] * 2, [], [], names=("elbow", "elbow"))),
        (time, sound.joint_state(0.0, [np.nan] * 2, [np.inf] * 2, [1e308] * 2)),
        (time, sound.joint_state(now, *[[0.1] * 2] * 3, names=("\x1b[2J\n", "é" * 500))),
    )
    for each in odd:
        yield [*messages[:50], each, *messages[51:]]


def change_database(source: Path, target: Path, statement: Sequence[str | bytes | int]) -> None:
    """Copy an SQLite file and run statements on the copy, with their values if they take any."""
    shutil.copy(source, target)
    text, *values = statement
    with closing(sqlite3.connect(target)) as database:
        for each in str(text).split(";"):
            database.execute(each, values if "?" in each else ())
        database.commit()


SQL: tuple[tuple[str | bytes | int, ...], ...] = (
    ("DROP TABLE schema",),
    ("DELETE FROM messages",),
    ("UPDATE topics SET type = 'std_msgs/msg/Bool'",),
    ("UPDATE topics SET name = '/joint_states'",),
    ("UPDATE topics SET name = ? WHERE id = 1", b"\xff\x00"),
    ("UPDATE topics SET name = ? WHERE id = 1", "/a\nb\x1b[31m" * 90),
    ("UPDATE topics SET type = 7",),
    ("UPDATE messages SET data = ? WHERE id = 30", 12),
    ("UPDATE messages SET timestamp = 'yesterday' WHERE id = 30",),
    ("ALTER TABLE messages RENAME COLUMN data TO payload",),
    (
        "DROP TABLE messages; CREATE VIEW messages AS WITH RECURSIVE r(id, topic_id, timestamp, "
        "data) AS (SELECT 1, 1, 1, x'00' UNION ALL SELECT id + 1, 1, id, x'00' FROM r) "
        "SELECT * FROM r",
    ),
)


def change_metadata(path: Path, change: tuple[str, str]) -> None:
    """Replace a text in ``metadata.yaml``, or all of it if the text is empty."""
    old, new = change
    path.write_text(path.read_text().replace(old, new) if old else new)


_DEEP = "rosbag2_bagfile_information: " + "[" * 100_000 + "]" * 100_000
METADATA: tuple[tuple[str, str], ...] = (
    ("version: 9", "version: 99"),
    ("version: 9", "version: x"),
    ("storage_identifier: mcap", "storage_identifier: sqlite3"),
    ("message_count", "messages"),
    ("relative_file_paths", "files_there"),
    ("/joint_states", "/other"),
    ("cdr", "json"),
    ("bag.", "gone."),
    ("bag.", "../../../dev/zero."),
    ("compression_mode: ''", "compression_mode: FILE"),
    ("", ""),
    ("", "rosbag2_bagfile_information: {relative_file_paths: [1, {a: b}, null]}"),
    ("", 'rosbag2_bagfile_information: {relative_file_paths: ["a\\0b.mcap"]}'),
    ("", "a: !!python/object/apply:os.system ['true']"),
    ("", _DEEP),
    ("", "a: " + "x" * 3_000_000),
)


def _loop(path: Path, bags: Bags) -> None:
    path.symlink_to(path)


def _broken_name(path: Path, bags: Bags) -> None:
    path.write_bytes(bags.storage("mcap").read_bytes()[:-9])


def _of_the_other_kind(path: Path, bags: Bags) -> None:
    path.write_bytes(bags.storage("mcap").read_bytes())


ODD_PLACES: tuple[tuple[str, Callable[[Path, Bags], None]], ...] = (
    ("bag.mcap", lambda path, bags: path.mkdir()),
    ("bag.mcap", _loop),
    ("bag.mcap", lambda path, bags: path.symlink_to("/dev/zero")),
    ("bag.mcap", lambda path, bags: os.mkfifo(path)),
    ("gone.db3", lambda path, bags: None),
    ("x" * 300 + ".mcap", lambda path, bags: None),
    ("line\nbreak \x1b[31m.mcap", _broken_name),
    ("bag.db3", _of_the_other_kind),
)
"""Names of paths that are no recording, or one of an odd name, and what makes them."""
