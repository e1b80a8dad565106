"""Conversion of values on the command line, with errors that name the expected kind of value.

The functions are values of ``type`` for ``argparse``: each receives the text of an argument.
"""

from __future__ import annotations

import argparse
import math
import re

_ROS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
"""A relative name of ROS 2: tokens with slashes between them."""

LONGEST_NAME = 200
"""Longest name of a node or namespace [characters].

ROS 2 limits the full name of a topic to about 250 characters.
"""


def finite(text: str) -> float:
    """Return a text as a finite number.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def positive(text: str) -> float:
    """Return a text as a finite number above 0.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return _above_zero(text, "", "number")


def seconds(text: str) -> float:
    """Return a text as a finite duration above 0 [s].

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return _above_zero(text, " s", "duration")


def port(text: str) -> int:
    """Return a text as the number of a TCP port, from 0 to 65535.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}; give a number from 0 to 65535")
    return int(text)


def count(text: str) -> int:
    """Return a text as a whole number from 1 to 4096.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r}; give a whole number from 1 to 4096")
    return int(text)


def position(text: str) -> tuple[str, float]:
    """Return joint and position [rad or m] of ``JOINT=POSITION``; the position must be finite.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    joint, equals, where = text.rpartition("=")
    if not equals or not joint:
        raise argparse.ArgumentTypeError(f"{text!r}; give JOINT=POSITION")
    return joint, finite(where)


def numbers(text: str) -> tuple[float, ...]:
    """Return the finite numbers in a text with commas between them, such as ``0,0,0.1``.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return tuple(finite(part) for part in text.split(","))


def names(text: str) -> list[str]:
    """Return the names in a text with commas between them, without spaces around the names."""
    return [name.strip() for name in text.split(",")]


def node_name(text: str) -> str:
    """Return the name of a ROS node, with its namespace, without slashes at its ends.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    name = namespace(text)
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r}; give the name of a node")
    return name


def namespace(text: str) -> str:
    """Return a ROS namespace without slashes at its ends; empty for no namespace.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    name = text.strip("/")
    if name and not _ROS_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid ROS name; use letters, digits and underscores, no digit "
            "first, and single slashes between names"
        )
    if len(name) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"the name has {len(name)} characters; give at most {LONGEST_NAME}"
        )
    return name


def _above_zero(text: str, unit: str, what: str) -> float:
    value = finite(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"{text}{unit}; give a {what} above 0")
    return value
