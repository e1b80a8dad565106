"""What each test of the state machines leaves behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_timer_is_left() -> Iterator[None]:
    """Stop the timer of a machine that had no teardown; it would end a later test instead."""
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
