"""Damage to files: bytes of any file, and cells, values and records of known formats."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.fuzz.odd_values import odd_integer, odd_number, odd_text, replaced, resized
from rbd_control.joint_states import JointMessage

CELL = 5000
"""Length of a cell of garbage [characters]."""

_SEPARATORS = (";", "\t", " ", "|", ",,")


# Any file ------------------------------------------------------------------------------------


def damaged_bytes(random: Random, data: bytes) -> bytes:
    """Return a damaged copy of the content of a file, or other bytes; ``random`` chooses how."""
    choice = random.choice(("cut", "cut", "flip", "flip", "hole", "insert", "swap", "tail", "none"))
    copy = bytearray(data)
    size = len(copy)
    if choice == "none" or not size:
        return random.choice((b"", b"\0" * 100, random.randbytes(1000), b"\xff\xfe" + data[:100]))
    at = random.randrange(size)
    length = min(random.choice((1, 4, 16, 256, 4096)), size - at)
    if choice == "cut":
        return bytes(copy[:at])
    if choice == "flip":
        for _ in range(random.choice((1, 2, 8, 64))):
            copy[random.randrange(size)] ^= 1 << random.randrange(8)
    elif choice == "hole":
        copy[at : at + length] = bytes(length)
    elif choice == "insert":
        copy[at:at] = random.randbytes(length)
    elif choice == "swap":
        other = random.randrange(size - length + 1)
        copy[at : at + length], copy[other : other + length] = (
            copy[other : other + length],
            copy[at : at + length],
        )
    else:
        copy += random.randbytes(length)
    return bytes(copy)


# CSV -----------------------------------------------------------------------------------------


def damaged_csv(random: Random, text: str) -> bytes:
    """Return a CSV file with wrong cells, rows, columns, separators or encoding.

    Args:
        random: source of all choices.
        text: a valid CSV file.
    """
    if random.random() < 0.15:
        return damaged_bytes(random, text.encode())
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(random.choice((1, 1, 2, 3))):
        if rows:  # a change may have taken all rows
            random.choice(_CSV_CHANGES)(random, rows)
    joined = "\n".join(",".join(row) for row in rows) + "\n"
    choice = random.random()
    if choice < 0.03:
        return joined.encode("utf-16")
    if choice < 0.06:
        return joined.replace(",", random.choice(_SEPARATORS)).encode()
    if choice < 0.09:
        return joined.replace("\n", random.choice(("\r\n", "\r", "\n\n"))).encode()
    if choice < 0.12:
        return joined.rstrip("\n").encode("utf-8-sig", "replace")
    return joined.encode("utf-8", "replace")


def _cell(random: Random) -> str:
    """Return a random text for a cell in place of a number."""
    choice = random.random()
    if choice < 0.5:
        return repr(odd_number(random))
    if choice < 0.6:
        return str(odd_integer(random))
    if choice < 0.7:
        return ""
    if choice < 0.8:
        return chr(random.randrange(33, 127)) * CELL
    return odd_text(random)[:CELL]


def _wrong_cells(random: Random, rows: list[list[str]]) -> None:
    for _ in range(random.choice((1, 1, 5, 50))):
        row = random.choice(rows)
        if row:
            row[random.randrange(len(row))] = _cell(random)


def _wrong_column(random: Random, rows: list[list[str]]) -> None:
    """Write one wrong value to all rows of a column, as a failed sensor would."""
    column, cell = random.randrange(len(rows[0]) or 1), _cell(random)
    for row in rows[1:]:
        if column < len(row):
            row[column] = cell


def _wrong_widths(random: Random, rows: list[list[str]]) -> None:
    row = random.choice(rows)
    if random.random() < 0.5:
        del row[random.randrange(len(row) + 1) :]
    else:
        row += [_cell(random)] * random.choice((1, 100))


def _wrong_order(random: Random, rows: list[list[str]]) -> None:
    body = rows[1:]
    choice = random.random()
    if choice < 0.3:
        random.shuffle(body)
    elif choice < 0.6:
        body.reverse()
    elif body:
        begin = random.randrange(len(body))
        body[begin:begin] = body[: random.randrange(len(body))]
    rows[1:] = body


def _wrong_times(random: Random, rows: list[list[str]]) -> None:
    """Let the clock jump, stand still or run at another pace from some row on."""
    begin = random.randrange(1, len(rows)) if len(rows) > 1 else 0
    shift, pace = odd_number(random), random.choice((1.0, 0.0, -1.0, 1e-6, 1e6))
    for k, row in enumerate(rows[begin:]):
        if row:
            row[0] = repr(shift + pace * 0.02 * k)


def _wrong_header(random: Random, rows: list[list[str]]) -> None:
    header = rows[0]
    choice = random.random()
    if choice < 0.4 and header:
        header[random.randrange(len(header))] = odd_text(random)[:CELL].replace("\n", " ")
    elif choice < 0.6 and header:
        header[random.randrange(len(header))] = random.choice(header)
    elif choice < 0.8:
        random.shuffle(header)
    else:
        rows[:1] = []


def _few_rows(random: Random, rows: list[list[str]]) -> None:
    del rows[random.choice((0, 1, 2, 3)) :]
    if not rows:
        rows.append([])


_CSV_CHANGES: Sequence[Callable[[Random, list[list[str]]], None]] = (
    _wrong_cells, _wrong_cells, _wrong_cells, _wrong_column, _wrong_widths, _wrong_order,
    _wrong_times, _wrong_header, _few_rows,
)  # fmt: skip


# Bags ----------------------------------------------------------------------------------------

_SQL = (
    "DROP TABLE messages", "DROP TABLE topics", "DELETE FROM messages", "DELETE FROM topics",
    "UPDATE messages SET data = NULL WHERE id % 7 = 3", "UPDATE messages SET data = 'text'",
    "UPDATE messages SET data = 5 WHERE id = 10", "UPDATE messages SET timestamp = -timestamp",
    "UPDATE messages SET timestamp = 'noon' WHERE id = 5", "UPDATE messages SET timestamp = NULL",
    "UPDATE messages SET timestamp = 9e300 WHERE id = 9", "UPDATE messages SET topic_id = 99",
    "UPDATE topics SET serialization_format = 'json'", "UPDATE topics SET type = 'a/msg/B'",
    "UPDATE topics SET type = 'std_msgs/msg/String'", "UPDATE topics SET name = NULL",
    "UPDATE topics SET name = '/joint_states'", "UPDATE messages SET data = zeroblob(1000000)",
    "ALTER TABLE messages RENAME COLUMN data TO content", "CREATE TABLE other (x)",
    "UPDATE messages SET data = substr(data, 1, 30) WHERE id % 5 = 0",
)  # fmt: skip


def damaged_db3(random: Random, path: Path) -> None:
    """Damage a ``.db3`` file of a rosbag2 recording in place: its bytes, or its SQLite tables."""
    if random.random() < 0.5:
        path.write_bytes(damaged_bytes(random, path.read_bytes()))
        return
    # Some statements fail on a bag that is damaged already.
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.Error):
        for _ in range(random.choice((1, 1, 2))):
            database.execute(random.choice(_SQL))
        database.commit()


def odd_messages(random: Random, messages: Sequence[JointMessage]) -> list[JointMessage]:
    """Return a copy of valid joint states in which one, some or all are wrong.

    Args:
        random: source of all choices.
        messages: valid joint states, at least one.
    """
    copy = list(messages)
    change = random.choice(_MESSAGE_CHANGES)
    begin, step = random.randrange(len(copy)), random.choice((1, 1, 3, len(copy)))
    for k in range(begin, len(copy), step):
        copy[k] = change(random, copy[k])
    if random.random() < 0.1:
        copy = copy[: random.choice((0, 1, 2))]
    return copy


def _odd_numbers(random: Random, message: JointMessage) -> JointMessage:
    field = random.choice(("position", "velocity", "effort"))
    values = [float(x) for x in np.asarray(getattr(message, field))]
    return message._replace(**{field: replaced(random, values)})


def _odd_lengths(random: Random, message: JointMessage) -> JointMessage:
    field = random.choice(("position", "velocity", "effort"))
    values = [float(x) for x in np.asarray(getattr(message, field))]
    return message._replace(**{field: resized(random, values)})


def _odd_names(random: Random, message: JointMessage) -> JointMessage:
    names: Sequence[str] = random.choice(
        (
            (),
            ("elbow", "shoulder"),
            ("elbow", "elbow"),
            ("shoulder",),
            (odd_text(random)[:CELL].replace("\0", ""), "elbow"),
        )
    )
    return message._replace(name=names)


def _odd_stamps(random: Random, message: JointMessage) -> JointMessage:
    stamp = random.choice((0.0, -5.0, message.stamp - 50.0, message.stamp + 50.0, 2.0e9, 1000.0))
    return message._replace(stamp=stamp)


def _odd_receipts(random: Random, message: JointMessage) -> JointMessage:
    return message._replace(receipt=random.choice((0.0, message.receipt - 50.0, 9e9)))


_MESSAGE_CHANGES = (
    _odd_numbers,
    _odd_numbers,
    _odd_lengths,
    _odd_names,
    _odd_stamps,
    _odd_receipts,
)


# YAML ----------------------------------------------------------------------------------------

_VALUES = (
    ".nan", ".inf", "-.inf", "1e400", "1e308", "-1", "0", "null", "true", "[]", "[[1.0]]", "{}",
    "{a: 1}", "'text'", "[1.0, 2.0, 3.0]", "[a, b]", "[.nan, 1.0]", "[1.0, true]", "2001-01-01",
    "!!binary aGVsbG8=", "!!python/object:os.system x", "*nothing", "&x [*x]", "0x10", "1_000",
    "12:30:45", "~", "[" * 200, "'", "1e23", "[1e308, 1e308]",
)  # fmt: skip
_WHOLE = (
    "", "\n", "text", "[1, 2]", "42", "{}", "contact_detector:", "contact_detector: 5",
    "contact_detector:\n  ros__parameters: []\n", "/**:\n  ros__parameters: null\n", "\t\t:",
    "--- !",
    "a: &a [1,2]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c]\n"
    "contact_detector:\n  ros__parameters:\n    joints: [*d,*d,*d,*d,*d,*d]\n",
)  # fmt: skip


def damaged_yaml(random: Random, text: str, names: Sequence[str]) -> bytes:
    """Return a parameter file with wrong values, names or structure.

    Args:
        random: source of all choices.
        text: a valid parameter file.
        names: names of parameters that it may contain.
    """
    choice = random.random()
    if choice < 0.1:
        return random.choice(_WHOLE).encode()
    if choice < 0.2:
        return damaged_bytes(random, text.encode())
    lines = text.splitlines()
    for _ in range(random.choice((1, 1, 2, 4))):
        name = (
            random.choice(names) if random.random() < 0.9 else re.sub(r"\s", "", odd_text(random))
        )
        value = random.choice(_VALUES) if random.random() < 0.6 else _yaml_number(random)
        lines = [line for line in lines if not line.strip().startswith(f"{name}:")]
        lines.append(f"    {name}: {value}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _yaml_number(random: Random) -> str:
    number: Any = odd_number(random) if random.random() < 0.7 else odd_integer(random)
    text = repr(number).replace("nan", ".nan").replace("inf", ".inf")
    return f"[{text}]" if random.random() < 0.6 else text
