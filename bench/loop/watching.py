"""``rbd-control view`` beside the nodes of a benchmark, with a connected headless browser."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rbd_control.errors import RbdControlError
from rbd_control.live.demo import free_port
from rbd_control.ros.processes import NodeProcesses, ending_with_parent

VIEW = "view"
"""Name of the process of the view."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

CONNECTING = 120.0
"""Longest time until the browser is connected [s]."""

_ESTABLISHED, _LISTENING = "01", "0A"


@contextmanager
def watched(processes: NodeProcesses, wait: Callable[[float], None]) -> Iterator[None]:
    """Run the view and a headless browser with its page inside the ``with`` block.

    The block begins when the browser is connected. The view ends with ``processes``.

    The browser draws without a graphics card, so the 3D scene stays empty; the view sends it the
    same data.

    Args:
        processes: receives the process of the view, named :data:`VIEW`.
        wait: waits for the given time [s] and checks the other processes.

    Raises:
        RbdControlError: if no browser is installed, or if the view does not answer or no browser
            connects within :data:`CONNECTING`.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise RbdControlError(f"--view needs a browser: none of {', '.join(BROWSERS)} is installed")
    port = free_port()
    processes.start("rbd_control.cli.main", ["view", "--urdf", "arm7", "--port", str(port)], VIEW)
    deadline = time.monotonic() + CONNECTING
    while not is_served(port):
        _in_time(deadline, "the view does not answer")
        wait(0.5)
    with _browser(program, port):
        while not connections(port):
            _in_time(deadline, "no browser connected to the view")
            wait(0.5)
        yield


@contextmanager
def _browser(program: str, port: int) -> Iterator[None]:
    """Run a headless browser with the page of a port."""
    # Processes of the browser may still write into its profile while it ends.
    with TemporaryDirectory(prefix="bench_loop_browser_", ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [
                *(program, "--headless=new", "--disable-gpu", "--no-sandbox"),
                *("--remote-debugging-port=0", f"--user-data-dir={profile}"),
                f"http://127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ending_with_parent(),
        )
        try:
            yield
        finally:
            os.killpg(browser.pid, signal.SIGTERM)
            browser.wait()


def is_served(port: int) -> bool:
    """Return whether a process of this machine listens on a TCP port."""
    return any(state == _LISTENING for state in _states(port))


def connections(port: int) -> int:
    """Return the number of established TCP connections to a port of this machine."""
    return sum(state == _ESTABLISHED for state in _states(port))


def _states(port: int) -> list[str]:
    """Return the states of the sockets that use a local port, as /proc/net/tcp codes them."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return [each[3] for each in fields if int(each[1].rpartition(":")[2], 16) == port]


def _in_time(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise RbdControlError(f"{what} within {CONNECTING:g} s")
