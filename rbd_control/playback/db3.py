"""Storage files of rosbag2 in SQLite (``.db3``), read in blocks of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import reason
from rbd_control.playback.packed import MAX_MESSAGE, Packed
from rbd_control.playback.storage import Topic
from rbd_control.wording import quoted

_TABLES = ("topics", "messages")
_FIND_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)"
_TOPICS = "SELECT id, name, type, serialization_format FROM topics"
_COUNTS = "SELECT topic_id, count(*) FROM messages GROUP BY topic_id"
_MESSAGES = (
    f"SELECT timestamp, CASE WHEN length(data) <= {MAX_MESSAGE} THEN data END "
    "FROM messages WHERE topic_id IN ({}) ORDER BY timestamp"
)


class Db3Storage:
    """The topics and messages of a ``.db3`` file.

    Attributes:
        path: the file.
        topics: topics of the file by name.

    Raises:
        RecordingError: from the constructor and from every iteration, if a write-ahead log beside
            the file has messages that cannot be read.
        sqlite3.Error: from the constructor and from every iteration, if the file is damaged.
        ValueError: from the constructor and from every iteration, if the tables have other contents
            than rosbag2 writes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids: dict[str, list[int]] = {}
        self.topics: dict[str, Topic] = {}
        with closing(self._connect()) as database:
            tables = {name for (name,) in database.execute(_FIND_TABLES, _TABLES)}
            missing = [name for name in _TABLES if name not in tables]
            if missing:
                raise ValueError(f"it has no table '{missing[0]}'")
            rows = database.execute(_TOPICS).fetchall()
            counts = dict(database.execute(_COUNTS))
        for number, *texts in rows:
            self._add(number, texts, counts.get(number, 0))

    def packed(self, topic: str, size: int) -> Iterator[Packed]:
        """Yield the messages on ``topic`` in order of receipt, ``size`` messages at a time."""
        ids = self._ids[topic]
        with closing(self._connect()) as database:
            cursor = database.execute(_MESSAGES.format(", ".join("?" * len(ids))), ids)
            while found := cursor.fetchmany(size):
                times, raws = zip(*found, strict=True)
                _check(topic, times, raws)
                yield Packed.of(times, raws)

    def _add(self, number: int, texts: Sequence[Any], count: int) -> None:
        """Process a row of the table of topics; one topic can have several rows."""
        odd = [text for text in texts if not isinstance(text, str)]
        if odd or not isinstance(number, int):
            raise ValueError(f"its table 'topics' holds {quoted(odd[0] if odd else number)}")
        name, msgtype, encoding = texts
        if name in self.topics:
            known = self.topics[name]
            msgtype = msgtype if msgtype == known.msgtype else "several types"
            encoding = encoding if encoding == known.encoding else "several formats"
            count += known.messages
        self.topics[name] = Topic(msgtype, encoding, count)
        self._ids.setdefault(name, []).append(number)

    def _connect(self) -> sqlite3.Connection:
        path = self.path.resolve()
        log = path.with_name(f"{path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            # Immutable: SQLite needs neither locks nor a journal, so a read-only folder suffices.
            return sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
        # The recorder is still running, or has crashed: its last messages are in the log only.
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            database.execute(_FIND_TABLES, _TABLES).fetchall()
        except sqlite3.OperationalError as error:
            database.close()
            raise RecordingError(
                f"has messages in {log.name}, which cannot be read ({reason(error)}); copy both "
                "files to a folder that can be written"
            ) from error
        except sqlite3.Error:  # the file is damaged
            database.close()
            raise
        return database


def _check(topic: str, times: Sequence[Any], raws: Sequence[Any]) -> None:
    """Raise an error for rows that are not messages; SQLite accepts any value in any column."""
    if set(map(type, times)) == {int} and set(map(type, raws)) == {bytes}:
        return
    for time, raw in zip(times, raws, strict=True):
        if type(time) is not int or type(raw) is not bytes:
            what = f"time {quoted(time)}" if type(time) is not int else "data that is not a message"
            raise ValueError(f"a row of {topic} holds {what}")
