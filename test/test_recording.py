"""Reading rosbag2, bags of ROS 1 and CSV: values are returned, and unreadable input is named."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from math import nan
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import pytest
from damage import sound
from damage.mcap_writer import mcap
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning, RecordingError
from rbd_control.joint_states import JointMessage, JointStateIntake
from rbd_control.playback.motions import read_motions
from rbd_control.playback.recording import BLOCK, Recording, read_recording

TYPES = get_typestore(Stores.LATEST)


JOINTS = ("shoulder", "elbow")


JOINT_STATE = "sensor_msgs/msg/JointState"


BOOL = "std_msgs/msg/Bool"


def joint_messages(n: int = 50, start: float = 100.0) -> list[JointMessage]:
    return [
        JointMessage(
            start + 0.01 * k,
            start + 0.01 * k + 0.001,
            list(JOINTS),
            [0.1 * k, -0.1 * k],
            [0.1, -0.1],
            [1.0, 2.0],
        )
        for k in range(n)
    ]


def write_bag(
    path: Path,
    messages: Sequence[JointMessage],
    topic: str = "/joint_states",
    flags: Sequence[tuple[float, bool]] = (),
) -> Path:
    header_type, time_type, state_type, bool_type = (
        TYPES.types[name]
        for name in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time", JOINT_STATE, BOOL)
    )
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        states = writer.add_connection(topic, JOINT_STATE, typestore=TYPES)
        contact = writer.add_connection("/truth/contact", BOOL, typestore=TYPES)
        for message in messages:
            stamp = round(message.stamp * 1e9)
            content = state_type(
                header=header_type(
                    stamp=time_type(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id=""
                ),
                name=list(message.name),
                position=np.array(message.position, dtype=float),
                velocity=np.array(message.velocity, dtype=float),
                effort=np.array(message.effort, dtype=float),
            )
            raw = TYPES.serialize_cdr(content, JOINT_STATE)
            writer.write(states, round(message.receipt * 1e9), raw)
        for time, on in flags:
            writer.write(contact, round(time * 1e9), TYPES.serialize_cdr(bool_type(data=on), BOOL))
    return path


def write_csv(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


STORAGE = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}


@pytest.mark.parametrize(
    ("kind", "form"),
    [("mcap", "folder without metadata"), ("db3", "folder"), ("db3", "bare file")],
)
def test_bag_comes_back(tmp_path: Path, kind: str, form: str) -> None:
    path = sound.write_bag(tmp_path / "bag", MOTION, STORAGE[kind])
    if form != "folder":
        (path / "metadata.yaml").unlink()
    if form == "bare file":
        path = path / f"bag.{kind}"
    recording = read_recording(path)
    assert recording.joint_names == sound.JOINTS
    assert is_whole(recording)


def test_a_gripper_that_started_long_before_the_arm(tmp_path: Path) -> None:
    """All messages of the first block are those of the gripper."""
    arm = joint_messages(50)
    finger = arm[0]._replace(name=["finger"], position=[0.1], velocity=[], effort=[0.0])
    early = [
        finger._replace(stamp=m.stamp - 50.0, receipt=m.receipt - 50.0)
        for m in joint_messages(BLOCK + 100)
    ]
    early = [m for m in early if m.receipt < arm[0].receipt]
    assert len(early) > BLOCK
    recording = read_recording(write_bag(tmp_path / "bag", [*early, *arm]))
    assert len(list(recording.samples(JointStateIntake(JOINTS)))) == 50
    assert recording.names_with(JOINTS) == ("finger", *JOINTS)
    assert read_motions(recording, Model.from_urdf(sound.URDF)).messages == len(arm)
    with pytest.raises(RecordingError, match=r"has no joint tail; its joints are finger, "):
        list(recording.samples(JointStateIntake(["tail"])))


def test_truth_is_read_and_bounces_are_one_contact(tmp_path: Path) -> None:
    flags = [(100.0, False), (100.1, True), (100.2, False), (100.22, True), (100.3, False)]
    flags += [(100.4, True)]
    recording = read_recording(write_bag(tmp_path / "bag", joint_messages(), flags=flags))
    assert recording.true_contacts is not None
    assert recording.true_contacts[0] == pytest.approx((100.1, 100.3))
    assert recording.true_contacts[1] == (pytest.approx(100.4), None)
    assert len(recording.true_contacts) == 2
    untold = read_recording(write_bag(tmp_path / "untold", joint_messages()))
    assert untold.true_contacts is None, "a topic without messages says nothing"


def test_truth_is_moved_to_the_clock_of_the_samples(tmp_path: Path) -> None:
    """Simulated stamps from 5 s on, recorded at 100 s on the wall clock."""
    messages = [m._replace(stamp=m.stamp - 95.0, receipt=m.stamp) for m in joint_messages()]
    path = write_bag(tmp_path / "bag", messages, flags=[(100.1, True), (100.3, False)])
    assert read_recording(path).true_contacts == (pytest.approx((5.1, 5.3)),)


def test_csv(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "log.csv",
        "time, effort/elbow, position/shoulder, position/elbow, effort/shoulder",
        "0.0,2,0.1,0.2,1",
        "0.5,,0.3,0.4,1",
        "1.0,2,0.5,0.6,1",
    )
    recording = read_recording(path)
    assert (recording.count, recording.joint_names) == (3, JOINTS)
    intake = JointStateIntake(JOINTS)
    first, second, third = recording.samples(intake)
    np.testing.assert_array_equal(first.q, [0.1, 0.2])
    np.testing.assert_array_equal(first.tau, [1.0, 2.0])
    assert first.v is None, "no velocity column: missing, never zero"
    assert second.tau is None, "an empty cell is missing"
    assert third.stamp == 1.0
    assert intake.counts["stamp replaced"] == 0


def test_csv_in_blocks_is_read_like_row_by_row(tmp_path: Path) -> None:
    """Blank lines, quotes, spaces and empty cells turn up in some of many blocks."""
    generator = np.random.default_rng(1)
    numbers = generator.normal(size=(10_000, 3)) * 10.0 ** generator.integers(-9, 9, (10_000, 3))
    numbers[:, 1] = np.arange(10_000) / 3.0
    rows = [",".join(map(repr, row)) for row in numbers.tolist()]
    rows[5000] = '"1.5", 2.5 ,'
    numbers[5000] = (1.5, 2.5, nan)
    rows[100:100] = ["", "  "]
    path = write_csv(tmp_path / "log.csv", "effort/a,time,position/a", *rows)
    read = list(read_recording(path).messages())
    stamps, positions, efforts = zip(
        *((m.stamp, *m.position, *m.effort) for m in read), strict=True
    )
    np.testing.assert_array_equal(np.array([efforts, stamps, positions]).T, numbers)
    rows[9000] = "1,2"
    path = write_csv(tmp_path / "cut.csv", "effort/a,time,position/a", *rows)
    with pytest.raises(RecordingError, match="line 9002 has 2 columns"):
        list(read_recording(path).messages())


REFUSED_CSV = {
    "another layout": (["t,q_0,q_1", "0,1,2"], "q_0|'t'"),
    "a joint without effort": (
        ["time,position/a,position/b,effort/a", "0,1,2,3"],
        "'b' lacks a position or effort",
    ),
    "text for a number": (["time,position/a", "0,1", "1,fast"], "line 3, column 2: 'fast' is not"),
    "a row cut short": (["time,position/a,effort/a", "0,1,2", "1,2"], "line 3 has 2 columns"),
    "nothing": ([""], "empty"),
}


@pytest.mark.parametrize(("lines", "says"), REFUSED_CSV.values(), ids=REFUSED_CSV.keys())
def test_refused_csv(tmp_path: Path, lines: list[str], says: str) -> None:
    path = write_csv(tmp_path / "log.csv", *lines)
    with pytest.raises(RecordingError, match=says) as refusal:
        list(read_recording(path).messages())
    assert "\n" not in str(refusal.value)


def test_missing_topic_lists_those_there_are(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag", joint_messages(), topic="/left/joint_states")
    with pytest.raises(RecordingError, match="topics of sensor_msgs/msg/JointState are /left/jo"):
        read_recording(path)
    assert read_recording(path, "left/joint_states").count == 50


def test_reading_takes_no_memory_that_grows(tmp_path: Path) -> None:
    """Three times as many samples, at most a chunk (1 MiB) or a page cache more."""
    peaks = []
    for n in (6_000, 18_000):
        recording = read_recording(write_bag(tmp_path / f"bag{n}", joint_messages(n)))
        tracemalloc.start()
        for _ in recording.sample_blocks(JointStateIntake(JOINTS)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 4 * 2**20


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
    (file,) = path.iterdir()
    assert is_whole(read_recording(file))
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
    path = sound.write_ros1(tmp_path / "log.bag", MOTION)
    recording = read_recording(path)
    assert is_whole(recording)
    (contact,) = recording.true_contacts or ()
    assert contact == pytest.approx((sound.START + 0.4, sound.START + 0.6))


def test_without_rosbags_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A released ROS package is installed without it."""
    monkeypatch.setitem(sys.modules, "rosbags.rosbag2", None)
    (tmp_path / "log.mcap").write_bytes(b"not opened")
    with pytest.raises(RecordingError, match=r"log.mcap: .* package rosbags .*: pip install rosb"):
        read_recording(tmp_path / "log.mcap")


def test_unrelated_files_in_one_folder_are_told_or_refused(tmp_path: Path) -> None:
    """They were read as one recording without a word."""
    together = tmp_path / "bags"
    together.mkdir()
    for name, start in (("a", 100.0), ("b", 200.0), ("c", 200.2)):
        bag = write_bag(tmp_path / name, joint_messages(200, start))
        (bag / f"{name}.mcap").rename(together / f"{name}.mcap")
    with pytest.raises(RecordingError, match=r"b.mcap and c.mcap overlap .* give each file alone"):
        read_recording(together)
    (together / "c.mcap").unlink()
    with pytest.warns(ModelWarning, match=r"are read as one recording: a.mcap, b.mcap"):
        assert read_recording(together).count == 400
