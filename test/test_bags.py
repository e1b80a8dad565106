"""Bags of every kind and state: unfinished, compressed, of ROS 1, and read without rosbags."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import lz4.frame
import numpy as np
import pytest
from damage import sound
from damage.mcap_writer import mcap
from rosbags.rosbag1 import Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.typesys import Stores, get_typestore

from rbd_control.errors import RecordingError
from rbd_control.playback.recording import Recording, read_recording

TOPIC = "/joint_states"
MOTION = sound.swing(3.0)
MESSAGES = sound.messages(MOTION)


def is_whole(recording: Recording) -> bool:
    """Return whether a recording has each of :data:`MESSAGES`, with its time of receipt."""
    found: list[tuple[float, list[Any]]] = [
        (message.receipt, np.asarray(message.position).tolist()) for message in recording.messages()
    ]
    sent = [1e-9 * time for time, _ in MESSAGES]
    return (
        recording.count == len(sent)
        and [receipt for receipt, _ in found] == pytest.approx(sent)
        and [position for _, position in found] == MOTION.q.tolist()
    )


WITHOUT_INDEX = {"summary_start": 0}
COMPRESSED = {"compression": b"lz4", "compress": lz4.frame.compress}


@pytest.mark.parametrize(
    "form",
    [COMPRESSED, {"without_chunks": True}],
    ids=["compressed", "no chunks"],
)
def test_mcap_files_without_index_are_read(form: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    path.write_bytes(mcap(MESSAGES, {**form, **WITHOUT_INDEX}))
    assert is_whole(read_recording(path))


@pytest.mark.parametrize(("mode", "kind"), [("FILE", "MCAP"), ("MESSAGE", "SQLITE3")])
def test_compressed_recordings_need_no_metadata(mode: str, kind: str, tmp_path: Path) -> None:
    compression = CompressionMode[mode], CompressionFormat.ZSTD
    path = sound.write_bag(tmp_path / "bag", MOTION, StoragePlugin[kind], compression)
    (path / "metadata.yaml").unlink()
    recording = read_recording(path)
    assert is_whole(recording)
    (contact,) = recording.true_contacts or ()
    assert contact == pytest.approx((sound.START + 0.4, sound.START + 0.6))


def test_messages_that_rosbags_passes_over_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    path.write_bytes(mcap(MESSAGES, {"count": len(MESSAGES) + 5}))
    with pytest.raises(RecordingError, match=r"log.mcap: .*5 of 605 messages .* are missing"):
        is_whole(read_recording(path))


def test_messages_in_a_write_ahead_log_are_not_left_out(tmp_path: Path) -> None:
    """A recorder that still runs or has crashed leaves them; the remedy makes them readable."""
    folder = sound.write_bag(tmp_path / "bag", MOTION, StoragePlugin.SQLITE3)
    path = tmp_path / "log.db3"
    with closing(sqlite3.connect(folder / "bag.db3")) as database:
        database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
            "CREATE TABLE t AS SELECT * FROM messages; DELETE FROM messages;"
            "INSERT INTO messages SELECT * FROM t;"
        )
        for end in ("", "-wal"):
            shutil.copy(folder / f"bag.db3{end}", f"{path}{end}")
    with pytest.raises(RecordingError, match=r"log.db3: has messages in log.db3-wal") as refused:
        read_recording(path)
    assert str(refused.value).endswith("sqlite3 log.db3 'PRAGMA wal_checkpoint(TRUNCATE)'")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert is_whole(read_recording(path))


def test_a_recording_of_ros_1(tmp_path: Path) -> None:
    types, former = get_typestore(Stores.LATEST), get_typestore(Stores.ROS1_NOETIC)
    path = tmp_path / "log.bag"
    with Writer(path) as writer:
        states = writer.add_connection(TOPIC, sound.JOINT_STATE, typestore=former)
        truth = writer.add_connection("/truth/contact", sound.BOOL, typestore=former)
        for time, raw in sound.flags():
            writer.write(truth, time, bytes(types.cdr_to_ros1(raw, sound.BOOL)))
        for time, raw in MESSAGES:
            writer.write(states, time, bytes(types.cdr_to_ros1(raw, sound.JOINT_STATE)))
    recording = read_recording(path)
    assert is_whole(recording)
    (contact,) = recording.true_contacts or ()
    assert contact == pytest.approx((sound.START + 0.4, sound.START + 0.6))


class Reader:
    """Stand-in for ``rosbag2_py.SequentialReader`` with the used functions."""

    def open(self, storage: SimpleNamespace, converter: SimpleNamespace) -> None:
        assert Path(storage.uri).name == "log.mcap"
        assert converter.formats == ("", "")
        self.left = list(MESSAGES)

    def get_metadata(self) -> SimpleNamespace:
        topic = SimpleNamespace(name=TOPIC, type=sound.JOINT_STATE, serialization_format="cdr")
        counted = SimpleNamespace(topic_metadata=topic, message_count=len(MESSAGES))
        return SimpleNamespace(topics_with_message_count=[counted])

    def set_filter(self, wanted: SimpleNamespace) -> None:
        assert wanted.topics == [TOPIC]

    def has_next(self) -> bool:
        return bool(self.left)

    def read_next(self) -> tuple[str, bytes, int]:
        time, raw = self.left.pop(0)
        return TOPIC, raw, time


@pytest.fixture
def without_rosbags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a recording in an environment without rosbags, as with a released ROS package."""
    for name in ("rosbags.rosbag2", "rosbags.typesys"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "log.mcap").write_bytes(b"read by a stand-in")
    return tmp_path / "log.mcap"


def test_ros_reads_a_recording_without_rosbags(
    without_rosbags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    module = ModuleType("rosbag2_py")
    module.SequentialReader = Reader  # type: ignore[attr-defined]
    module.StorageOptions = SimpleNamespace  # type: ignore[attr-defined]
    module.ConverterOptions = lambda *formats: SimpleNamespace(formats=formats)  # type: ignore[attr-defined]
    module.StorageFilter = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rosbag2_py", module)
    assert is_whole(read_recording(without_rosbags))
