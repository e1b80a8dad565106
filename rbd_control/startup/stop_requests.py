"""Polling of SIGINT and SIGTERM by a loop, for commands with an orderly end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rbd_control.startup.prompt_end import call_off


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether SIGINT or SIGTERM came.

    An exception raised by a signal handler may be lost in a callback of rclpy, so none is raised.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {n: signal.signal(n, lambda number, _: came.append(number)) for n in numbers}
    call_off()
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
