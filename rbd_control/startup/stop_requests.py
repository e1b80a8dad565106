"""Polling of SIGINT and SIGTERM by the loop of a command, so that the command can clean up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rbd_control.startup.prompt_end import call_off


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM was received within this context.

    The signal handler raises no exception, because rclpy may discard an exception in a callback.
    The previous handlers are restored at the end of the context. A present
    :class:`~rbd_control.startup.prompt_end.PromptEnd` is disarmed, so that it does not end the
    process. Use it in the main thread only.
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
