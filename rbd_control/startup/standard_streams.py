"""Replacement of closed standard streams.

Some supervisors start programs with closed standard streams. The next file or socket that such a
program opens gets the number of a stream, and receives what libraries print; rclpy does not start
at all without ``sys.stderr``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def ensure_standard_streams() -> None:
    """Open the null device in the place of each standard stream that is closed.

    To be called before files are opened: a number that is in use already is left alone.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, and those below are in use by now.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def say(line: str) -> None:
    """Print a line on standard error; ignore a closed stream."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def release_standard_streams() -> None:
    """Flush standard output and error, and silence streams without a reader.

    Python flushes them once more when it ends, and ends with code 120 when that fails.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
