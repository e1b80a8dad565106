"""MCAP files without an index: read chunk by chunk, in memory that a chunk bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from damage import sound
from damage.mcap_writer import mcap

from rbd_control.errors import RecordingError
from rbd_control.playback.mcap import McapStorage
from rbd_control.playback.mcap_chunks import MAX_CHUNK
from rbd_control.playback.recording import read_recording

TOPIC = "/joint_states"
WITHOUT_INDEX = {"summary_start": 0}
COMPRESSED = {"compression": b"lz4", "compress": lz4.frame.compress}
MESSAGES = sound.messages(sound.swing(3.0))


def written(path: Path, **lies: object) -> Path:
    path.write_bytes(mcap(MESSAGES, lies))
    return path


def read(path: Path) -> list[tuple[int, bytes]]:
    storage = McapStorage(path)
    return [message for packed in storage.packed(TOPIC, 64) for message in packed.messages()]


@pytest.mark.parametrize("form", [{}, COMPRESSED], ids=["plain", "compressed"])
def test_messages_are_those_of_the_file_with_its_index(
    form: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package rosbags is not needed."""
    monkeypatch.setitem(sys.modules, "rosbags.rosbag2.storage_mcap", None)
    indexed = written(tmp_path / "indexed.mcap", **form)
    scanned = written(tmp_path / "scanned.mcap", **form, **WITHOUT_INDEX)
    assert McapStorage(indexed).is_indexed
    storage = McapStorage(scanned)
    assert not storage.is_indexed
    assert storage.topics == McapStorage(indexed).topics
    assert storage.topics[TOPIC].messages == len(MESSAGES)
    assert read(scanned) == read(indexed) == MESSAGES


def test_files_without_chunks_are_read_too(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.mcap", without_chunks=True, **WITHOUT_INDEX)) == MESSAGES


@pytest.mark.parametrize("form", [{}, {"without_chunks": True}], ids=["chunks", "no chunks"])
def test_the_time_of_a_message_is_that_of_its_receipt(
    form: dict[str, object], tmp_path: Path
) -> None:
    """The time of publication is of another clock, and zero where the middleware lacks it."""
    assert read(written(tmp_path / "a.mcap", published=0, **form, **WITHOUT_INDEX)) == MESSAGES


BOMB = lz4.frame.compress(bytes(MAX_CHUNK + 1))
"""Half a megabyte that expands to more than a chunk may have."""


@pytest.mark.parametrize(
    ("lies", "reason"),
    [
        ({"compression": b"lz4", "compress": lambda _: BOMB}, "expands to more than"),
        ({"uncompressed_size": 1 << 40}, "at most"),
        ({"chunk_size": 1 << 62}, "cut short"),
        ({"crc": 1}, "damaged"),
        ({"message_size": 1 << 40}, "cut short"),
    ],
    ids=["bomb", "size", "record", "checksum", "message"],
)
def test_no_chunk_is_expanded_beyond_its_size(
    lies: dict[str, object], reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "odd.mcap", **lies, **WITHOUT_INDEX)
    with pytest.raises(RecordingError, match=reason) as caught:
        read_recording(path)
    assert "odd.mcap" in str(caught.value)


def test_a_recording_is_replayed_without_its_index(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path / "a.mcap", **WITHOUT_INDEX))
    assert recording.count == len(MESSAGES)
    stamps = [message.stamp for message in recording.messages()]
    np.testing.assert_allclose(stamps, sound.swing(3.0).t, atol=1e-6)
