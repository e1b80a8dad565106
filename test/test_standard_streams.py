"""Output of a node to a full pipe, terminal or socket that no process reads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc")


LOG = """
import os, threading
from rbd_control.startup.standard_streams import never_wait_for_readers

never_wait_for_readers()
from rclpy.logging import get_logger

threading.Thread(target=lambda: get_logger("a").error("x" * 500), daemon=True).start()
get_logger("b").error("y" * 500)
os._exit(3)
"""
"""Logs in two threads. rclpy holds the global interpreter lock meanwhile."""


def connected() -> tuple[int, int]:
    """Return the descriptors of two connected sockets."""
    one, other = socket.socketpair()
    return one.detach(), other.detach()


ENDS = {"pipe": os.pipe, "terminal": os.openpty, "socket": connected}
"""Return two descriptors, to read from and to write to."""


@pytest.fixture(params=ENDS)
def full(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield a descriptor that takes no more output; writing to it waits."""
    reading, writing = ENDS[request.param]()
    os.set_blocking(writing, False)
    filled = time.monotonic()
    while time.monotonic() < filled + 0.5:  # the kernel takes output of a terminal by and by
        for size in (4096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(writing, bytes(size))
                    filled = time.monotonic()
        time.sleep(0.01)
    os.set_blocking(writing, True)
    yield writing
    os.close(reading)
    os.close(writing)


def code(text: str, output: int) -> int:
    """Return the exit code of Python code whose output goes to this descriptor."""
    command: Sequence[str] = (sys.executable, "-c", text)
    return subprocess.run(command, stdout=output, stderr=output, timeout=60.0).returncode


@pytest.mark.skipif(find_spec("rclpy") is None, reason="ROS 2 is not installed")
def test_log_lines_that_nobody_reads_stop_no_thread(full: int) -> None:
    """One line that waited stopped all threads of the process, the watchdogs included."""
    assert code(LOG, full) == 3
