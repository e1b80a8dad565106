"""Messages of a ``.db3`` file in blocks of rows.

rosbags reads these as well, but goes through the whole file each time it opens one, to count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rbd_control.playback.packed import Packed

_TOPICS = "SELECT id FROM topics WHERE name = ? AND serialization_format = 'cdr'"
_MESSAGES = "SELECT timestamp, data FROM messages WHERE topic_id IN ({}) ORDER BY timestamp"


def rows(path: Path, topic: str, size: int) -> Iterator[Packed]:
    """The messages on ``topic`` in order of time, ``size`` at a time.

    Raises:
        sqlite3.Error: when the file is damaged.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)) as database:
        topics = [number for (number,) in database.execute(_TOPICS, (topic,))]
        cursor = database.execute(_MESSAGES.format(", ".join("?" * len(topics))), topics)
        while found := cursor.fetchmany(size):
            times, raws = zip(*found, strict=True)
            yield Packed.of(times, raws)
