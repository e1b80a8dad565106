"""Standard streams that are closed, or whose reader has stopped.

Some supervisors start programs with closed standard streams. The next file or socket that such a
program opens gets the descriptor number of a standard stream, so the output of libraries is written
to it. Without ``sys.stderr``, rclpy does not start.

A reader stops for example when a terminal is paused by Ctrl-S, or a launch process is stopped. The
next log line that does not fit in the buffer of the pipe, terminal or socket then waits for the
reader.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from contextlib import suppress

LONGEST_WAIT = 0.001
"""Longest time that output to a socket waits for the reader [s].

The kernel rounds it up to its time step, 1 to 10 ms.
"""


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


def never_wait_for_readers() -> None:
    """Let output whose reader has stopped fail, and be lost.

    rclpy holds Python's global interpreter lock while it writes a log line. A line that waits for
    the reader would stop all threads of the process, including the watchdogs: the receiver would
    keep the last torque. Output to a pipe or a terminal fails at once; output to a socket (systemd)
    after :data:`LONGEST_WAIT`, also in other processes that share the socket. Files stay as they
    are. Call it after :func:`ensure_standard_streams`, in processes on which an arm depends.
    """
    for number in (1, 2):
        with suppress(OSError):  # for example without /proc, or if another user owns the terminal
            mode = os.fstat(number).st_mode
            if stat.S_ISSOCK(mode):
                _limit_wait(number)
                continue
            if not (stat.S_ISFIFO(mode) or os.isatty(number)):
                continue
            # O_NONBLOCK on the present descriptor would also apply to the processes that share it,
            # such as the shell in the same terminal.
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
            reopened = os.open(f"/proc/self/fd/{number}", flags)
            os.dup2(reopened, number)
            os.close(reopened)


def _limit_wait(number: int) -> None:
    """Let output to the socket with this descriptor number wait at most :data:`LONGEST_WAIT`.

    A socket cannot be opened a second time, as a pipe can, to be written without waiting.
    """
    limit = struct.pack("@ll", 0, round(1e6 * LONGEST_WAIT))  # struct timeval
    with socket.socket(fileno=os.dup(number)) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


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
