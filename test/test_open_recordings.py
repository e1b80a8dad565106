"""Recordings whose recorder crashed or still runs, and MCAP files without message index."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from damage import sound
from damage.mcap_writer import mcap
from unprivileged import unprivileged

from rbd_control.playback.mcap import McapStorage
from rbd_control.playback.recording import Recording, read_recording

MESSAGES = sound.messages(sound.swing(1.0))


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A recording of 200 messages; the last 100 are in its write-ahead log only."""
    path = tmp_path / "whole" / "log.db3"
    path.parent.mkdir()
    database = sqlite3.connect(path)
    database.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT,"
        " serialization_format TEXT);"
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER,"
        " data BLOB);"
        f"INSERT INTO topics VALUES(1, '/joint_states', '{sound.JOINT_STATE}', 'cdr');"
    )
    insert = "INSERT INTO messages(topic_id, timestamp, data) VALUES(1, ?, ?)"
    database.executemany(insert, MESSAGES[:100])
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.executemany(insert, MESSAGES[100:])
    database.commit()
    copy = tmp_path / "crashed"
    shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("*-shm"))
    database.close()
    return copy / path.name


def receipts(recording: Recording) -> list[float]:
    return [message.receipt for message in recording.messages()]


def test_messages_in_the_write_ahead_log_are_read(crashed: Path) -> None:
    log = crashed.with_name("log.db3-wal")
    before = log.read_bytes()
    recording = read_recording(crashed)
    assert recording.count == len(MESSAGES)
    assert receipts(recording) == pytest.approx([1e-9 * time for time, _ in MESSAGES])
    assert log.read_bytes() == before  # the recorder may still run
    log.unlink()
    assert read_recording(crashed).count == 100


def test_a_log_in_a_folder_without_permission_is_named(crashed: Path) -> None:
    crashed.parent.chmod(0o555)
    program = (
        "import sys; from rbd_control.playback.recording import read_recording\n"
        "try: print(read_recording(sys.argv[1]).count)\n"
        "except Exception as error: print(f'{type(error).__name__}: {error}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, crashed],
        preexec_fn=unprivileged(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"RecordingError: {crashed}: has messages in log.db3-wal, which")
    assert done.stdout.endswith("copy both files to a folder that can be written\n")


def test_an_mcap_file_without_message_index_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    path.write_bytes(mcap(MESSAGES, {"chunk_channels": ()}))
    assert not McapStorage(path).is_indexed
    recording = read_recording(path)
    assert recording.count == len(MESSAGES)
    assert receipts(recording) == pytest.approx([1e-9 * time for time, _ in MESSAGES])
