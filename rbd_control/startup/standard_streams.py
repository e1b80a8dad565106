"""Replacement of closed standard streams.

Some supervisors start programs with closed standard streams. The next file or socket that such a
program opens gets the descriptor number of a standard stream, so the output of libraries is written
to it. Without ``sys.stderr``, rclpy does not start.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def ensure_standard_streams() -> None:
    """Open the null device in place of each closed standard stream.

    Call it before files are opened: a descriptor number that is already in use is not replaced.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # open() returns the lowest free number, and all lower numbers are in use now.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def say(line: str) -> None:
    """Print a line on standard error; ignore a stream that is closed or cannot be written."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def release_standard_streams() -> None:
    """Flush standard output and error, and silence streams without a reader.

    Output to a silenced stream is discarded. Without this call, Python flushes the streams when it
    ends, and exits with code 120 if this fails.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
