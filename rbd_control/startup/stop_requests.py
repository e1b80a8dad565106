"""Polling of SIGINT and SIGTERM by a loop, for commands with an orderly end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rbd_control.startup.prompt_end import call_off


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM was received.

    The signal handler raises no exception, because rclpy may discard it in a callback.
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
