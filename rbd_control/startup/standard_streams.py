"""Environment of a process: standard streams, threads of the linear algebra, installed ROS 2.

The matrices of this package are small, so that further threads save little time. On processors that
other processes keep busy, the threads of OpenBLAS wait for each other in a loop: with two threads,
``rbd-control calibrate`` took up to five times the processor time that it takes with one.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rbd_control.errors import RbdControlError

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that OpenBLAS and MKL read when NumPy is imported."""


def use_one_thread() -> None:
    """Restrict the linear algebra of this process and its children to one thread each.

    If the user has set one of :data:`VARIABLES`, nothing changes. Call this function before NumPy
    is imported; later it has no effect.
    """
    if "numpy" not in sys.modules:
        os.environ.update(_restriction())


@contextmanager
def one_thread_in_children() -> Iterator[None]:
    """Restrict the linear algebra of processes that are started in this context to one thread each.

    If the user has set one of :data:`VARIABLES`, nothing changes.
    """
    added = _restriction()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _restriction() -> dict[str, str]:
    """Return the variables to set: all, or none if the user has set one."""
    is_set = any(name in os.environ for name in VARIABLES)
    return {} if is_set else dict.fromkeys(VARIABLES, "1")


@contextmanager
def ros_needed(what: str) -> Iterator[None]:
    """Convert failing imports in this context to an error that says how to install ROS 2.

    Args:
        what: name of the command or function that needs ROS, for the error.

    Raises:
        RbdControlError: if a module from outside this package is not found; the error names it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rbd_control":
            raise
        raise RbdControlError(
            f"{what} needs ROS 2, and {error.name} is not installed: source a ROS 2 "
            "installation, or pip install '.[ros]' in a clone of rbd_control"
        ) from error


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
