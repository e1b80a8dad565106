"""Damaged rosbag2 recordings: storage files, metadata and messages."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import lz4.frame
import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin

from damage import raw, sound
from damage.mcap_writer import Lies, mcap

T = TypeVar("T")

Maker = Callable[[np.random.Generator, "Bags", Path], Path]
"""Writes a damaged recording into an empty folder and returns its path."""


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
    name, content = raw.any_damage(rng, storage.read_bytes())
    storage.write_bytes(content)
    form = int(rng.integers(3))
    if form == 0:
        return path
    if form == 1 or storage.suffix == ".zstd":
        (path / "metadata.yaml").unlink()
        return path
    return storage


def lying_mcap(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Write an MCAP file of which one or two fields lie."""
    lies = dict(_one(rng, MCAP_LIES))
    if rng.random() < 0.3:
        lies.update(_one(rng, MCAP_LIES))
    path = folder / "bag.mcap"
    path.write_bytes(mcap(_odd_messages(rng, bags.messages), lies))
    return path


HUGE = 2**62
MCAP_LIES: tuple[Lies, ...] = (
    {},
    {"magic": b"\x89MCAP1\r\n"},
    {"end_magic": b"\0" * 8},
    {"profile": b"ros1"},
    {"msgtype": b"sensor_msgs/msg/Image"},
    {"encoding": b"json"},
    {"topic": b"/jo\nint\x1b[31m" * 50},
    {"topic": b"\xff\xff"},
    {"compression": b"snappy"},
    {"compression": b"lz4"},
    {"compression": b"lz4", "compress": lambda x: lz4.frame.compress(x + bytes(1 << 26))},
    {"uncompressed_size": HUGE},
    {"chunk_size": HUGE},
    {"crc": 1},
    {"chunk_begin": 2**64 - 1},
    {"chunk_offset": 10**9},
    {"chunk_channels": ()},
    {"message_size": 2**64 - 1},
    {"message_channel": 9},
    {"count": 0},
    {"summary_start": HUGE},
    {"summary_start": 0, "without_chunks": True},
    {"footer_size": 7},
)
"""Lies of each kind of record; rosbags reads them, and its errors must become one line."""


def _odd_messages(
    rng: np.random.Generator, messages: list[tuple[int, bytes]]
) -> list[tuple[int, bytes]]:
    """Return messages, one or all of which are odd now and then."""
    result = list(messages)
    k = int(rng.integers(len(result)))
    time, whole = result[k]
    odd: list[tuple[int, bytes] | None] = [
        None,
        None,
        None,
        (time, b""),
        (time, whole[:4]),
        (time, whole[: int(rng.integers(len(whole)))]),
        (time, raw.flip_bits(rng, whole)),
        (time, rng.bytes(len(whole))),
        (time, whole + bytes(100)),
        (time, b"\x00\x00" + whole[2:]),
        (time, b"\x07\x07" + whole[2:]),
        (time, whole + bytes(1 << 19)),
        (time, b"\x28\xb5\x2f\xfd" + whole),
        (0, whole),
        (2**63 - 1, whole),
        (time, sound.joint_state(time * 1e-9, [0.1], [0.2, 0.3], [])),
        (time, sound.joint_state(time * 1e-9, [], [], [], names=())),
        (time, sound.joint_state(time * 1e-9, [1.0] * 2, [], [], names=("elbow", "elbow"))),
        (time, sound.joint_state(-5.0, [0.1, 0.2], [], [])),
        (time, sound.joint_state(0.0, [np.nan] * 2, [np.inf] * 2, [1e308] * 2)),
        (time, sound.joint_state(time * 1e-9, [1e300] * 2, [1e300] * 2, [1e300] * 2)),
        (time, sound.joint_state(time * 1e-9, *[[1e80] * 2] * 3)),
        (time, sound.joint_state(time * 1e-9, *[[0.1] * 2] * 3, names=("\x1b[2J\n", "é" * 500))),
    ]
    chosen = odd[int(rng.integers(len(odd)))]
    if chosen is None:
        return result
    if rng.random() < 0.3:
        return [(each, chosen[1]) for each, _ in result]
    result[k] = chosen
    return result


def odd_rows(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Change rows in the tables of an SQLite file."""
    path = folder / "bag.db3"
    change_database(bags.storage("db3"), path, _one(rng, SQL))
    return path


def change_database(source: Path, target: Path, statement: Sequence[str | bytes | int]) -> None:
    """Copy an SQLite file and run statements on the copy, with their values if they take any."""
    shutil.copy(source, target)
    text, *values = statement
    with closing(sqlite3.connect(target)) as database:
        for each in str(text).split(";"):
            database.execute(each, values if "?" in each else ())
        database.commit()


SQL: tuple[tuple[str | bytes | int, ...], ...] = (
    ("SELECT 1",),
    ("DROP TABLE messages",),
    ("DROP TABLE schema",),
    ("DELETE FROM messages",),
    ("UPDATE topics SET serialization_format = 'json'",),
    ("UPDATE topics SET type = 'std_msgs/msg/Bool'",),
    ("UPDATE topics SET name = '/joint_states'",),
    ("UPDATE topics SET name = ? WHERE id = 1", b"\xff\x00"),
    ("UPDATE topics SET name = ? WHERE id = 1", "/a\nb\x1b[31m" * 90),
    ("UPDATE topics SET type = 7",),
    ("UPDATE messages SET topic_id = 77",),
    ("UPDATE messages SET data = ? WHERE id = 30", 12),
    ("UPDATE messages SET data = x''",),
    ("UPDATE messages SET data = substr(data, 1, 40) WHERE id = 30",),
    ("UPDATE messages SET timestamp = -timestamp",),
    ("UPDATE messages SET timestamp = 'yesterday' WHERE id = 30",),
    ("ALTER TABLE messages RENAME COLUMN data TO payload",),
    (
        "DROP TABLE messages; CREATE VIEW messages AS WITH RECURSIVE r(id, topic_id, timestamp, "
        "data) AS (SELECT 1, 1, 1, x'00' UNION ALL SELECT id + 1, 1, id, x'00' FROM r) "
        "SELECT * FROM r",
    ),
)


def lying_metadata(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Change the text of ``metadata.yaml``."""
    path = bags.copy(list(bags.folders)[int(rng.integers(len(bags.folders)))], folder)
    metadata = path / "metadata.yaml"
    text = metadata.read_text()
    if rng.random() < 0.3:
        metadata.write_bytes(raw.any_damage(rng, text.encode())[1])
        return path
    change_metadata(metadata, _one(rng, METADATA))
    return path


def change_metadata(path: Path, change: tuple[str, str]) -> None:
    """Replace a text in ``metadata.yaml``, or all of it if the text is empty."""
    old, new = change
    path.write_text(path.read_text().replace(old, new) if old else new)


_DEEP = "rosbag2_bagfile_information: " + "[" * 100_000 + "]" * 100_000
_BOMB = (
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{y}: &{y} [{', '.join([f'*{x}'] * 9)}]\n"
        for x, y in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "rosbag2_bagfile_information: {relative_file_paths: *i, version: 9}\n"
)
METADATA: tuple[tuple[str, str], ...] = (
    ("version: 9", "version: 99"),
    ("version: 9", "version: x"),
    ("storage_identifier: mcap", "storage_identifier: sqlite3"),
    ("storage_identifier: sqlite3", "storage_identifier: rocks"),
    ("message_count", "messages"),
    ("relative_file_paths", "files_there"),
    ("/joint_states", "/other"),
    ("sensor_msgs/msg/JointState", "std_msgs/msg/Bool"),
    ("cdr", "json"),
    ("bag.", "gone."),
    ("bag.", "/etc/passwd."),
    ("bag.", "../../../dev/zero."),
    ("compression_mode: ''", "compression_mode: FILE"),
    ("nanoseconds", "seconds"),
    ("", ""),
    ("", "[]"),
    ("", "null"),
    ("", "rosbag2_bagfile_information: 5"),
    ("", "rosbag2_bagfile_information: {relative_file_paths: 5}"),
    ("", "rosbag2_bagfile_information: {relative_file_paths: []}"),
    ("", "rosbag2_bagfile_information: {relative_file_paths: [1, {a: b}, null]}"),
    ("", "rosbag2_bagfile_information: {relative_file_paths: ['..', '.', '']}"),
    ("", 'rosbag2_bagfile_information: {relative_file_paths: ["a\\0b.mcap"]}'),
    ("", "\ta: b"),
    ("", "a: b: c"),
    ("", "a: !!python/object/apply:os.system ['true']"),
    ("", _DEEP),
    ("", _BOMB),
    ("", "a: " + "x" * 3_000_000),
)


def odd_place(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Return a path that is no recording at all, or one of an odd name."""
    kind = int(rng.integers(16))
    path = folder / "bag.mcap"
    sound_file = bags.storage("mcap").read_bytes()
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        path.symlink_to(path)
    elif kind == 2:
        path.symlink_to(folder / "nowhere")
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        os.mkfifo(path)
    elif kind == 5:
        path = folder / "gone.db3"
    elif kind == 6:
        path = folder
    elif kind == 7:
        path = folder / ("x" * 300 + ".mcap")
    elif kind == 8:
        path = folder / "line\nbreak \x1b[31m.mcap"
        path.write_bytes(sound_file[:-9])
    elif kind == 9:
        path = folder / "bag.db3"  # MCAP by its content
        path.write_bytes(sound_file)
    elif kind == 10:
        path.write_bytes(bags.storage("db3").read_bytes())
    elif kind == 11:
        (folder / "metadata.yaml").mkdir()
        path = folder
    elif kind == 12:
        (folder / "metadata.yaml").symlink_to("/dev/zero")
        path = folder
    elif kind == 13:
        path = folder / "odd?name#100%.db3"
        path.write_bytes(bags.storage("db3").read_bytes())
    elif kind == 14:
        path = folder / os.fsdecode(b"\xff\xfe.mcap")
        path.write_bytes(sound_file[:100])
    else:
        path = Path("/dev/null")
    return path


def several_files(rng: np.random.Generator, bags: Bags, folder: Path) -> Path:
    """Write a folder of several storage files, one of them perhaps damaged."""
    path = folder / "bag"
    path.mkdir()
    middle = len(bags.messages) // 2
    for k, part in enumerate((bags.messages[:middle], bags.messages[middle:])):
        content = mcap(part)
        if k == 1 and rng.random() < 0.7:
            content = raw.any_damage(rng, content)[1]
        (path / f"bag_{k}.mcap").write_bytes(content)
    if rng.random() < 0.3:
        shutil.copy(bags.storage("db3"), path / "bag_2.db3")
    return path


MAKERS: tuple[Maker, ...] = (
    damaged_storage, damaged_storage, damaged_storage, lying_mcap, lying_mcap, odd_rows, odd_rows,
    lying_metadata, odd_place, several_files,
)  # fmt: skip


def _one(rng: np.random.Generator, choices: Sequence[T]) -> T:
    return choices[int(rng.integers(len(choices)))]
