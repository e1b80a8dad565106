"""The watchdog that sends zero torque when the thread of the callbacks hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from rbd_control.ros.threads import SHORTEST_PERIOD, CallbackWatchdog

PATIENCE = 30.0
"""Deadline of operations that take some milliseconds on an idle machine [s]."""


class Bench:
    """A watchdog with a clock that only the test advances.

    Attributes:
        now: time of the clock [s].
        timeout: longest time between two beats [s].
        zeros: number of zero torques sent.
        looks: number of times that the thread has read the timeout.
    """

    def __init__(self) -> None:
        self.now, self.timeout = 100.0, 0.05
        self.zeros = self.looks = 0
        self.watchdog = CallbackWatchdog(self._ask, self._act, lambda: self.now)

    def _ask(self) -> float:
        self.looks += 1
        return self.timeout

    def _act(self) -> None:
        self.zeros += 1

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(SHORTEST_PERIOD)

    def wait_for_looks(self) -> None:
        """Wait until it has looked several times, whatever it saw."""
        seen = self.looks
        self.wait(lambda: self.looks > seen + 10, "the watchdog does not look")

    def wait_for_zeros(self) -> None:
        """Wait until it has sent zero several times more."""
        seen = self.zeros
        self.wait(lambda: self.zeros > seen + 3, "no zero torque is sent")


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.watchdog.stop()


def test_zero_is_sent_again_and_again_until_the_next_beat(bench: Bench) -> None:
    bench.watchdog.start()
    bench.now += bench.timeout  # just in time
    bench.wait_for_looks()
    assert bench.zeros == 0
    bench.watchdog.beat()
    bench.now += 0.3
    bench.wait_for_zeros()
    bench.watchdog.beat()
    bench.wait_for_looks()  # one that had begun before the beat is over
    sent = bench.zeros
    bench.wait_for_looks()
    assert bench.zeros == sent
    assert bench.watchdog.take_late() == pytest.approx(0.3, abs=1e-9)  # rounding at 100 s
    assert bench.watchdog.take_late() == 0.0


def test_a_pause_that_the_thread_has_not_seen_yet_counts(bench: Bench) -> None:
    """After a stop of the process the callback may run before the watchdog thread."""
    bench.watchdog.beat()
    assert bench.watchdog.deadline == pytest.approx(bench.now + bench.timeout)
    bench.now += 0.3
    assert bench.watchdog.take_late() == pytest.approx(0.3, abs=1e-9)
    bench.watchdog.beat()
    assert bench.watchdog.take_late() == 0.0
    assert bench.zeros == 0


def test_a_new_timeout_holds_at_once(bench: Bench) -> None:
    bench.watchdog.start()
    bench.now += 0.2
    bench.wait_for_zeros()
    bench.timeout = 0.5
    bench.wait_for_looks()
    sent = bench.zeros
    bench.wait_for_looks()
    assert bench.zeros == sent
    bench.timeout = 0.1
    bench.wait_for_zeros()


def test_it_sends_nothing_before_its_start_nor_after_its_stop(bench: Bench) -> None:
    """A node that is not active must not send, and one that stops has closed its output."""
    bench.now += 10.0
    assert bench.looks == 0
    bench.watchdog.start()  # what was before the start does not count
    bench.wait_for_looks()
    assert bench.zeros == 0
    bench.now += 10.0
    bench.wait_for_zeros()
    bench.watchdog.stop()
    sent, looks = bench.zeros, bench.looks
    time.sleep(20 * SHORTEST_PERIOD)
    assert (bench.zeros, bench.looks) == (sent, looks)


def test_a_new_start_discards_the_old_delay(bench: Bench) -> None:
    bench.watchdog.start()
    bench.now += 10.0
    bench.wait_for_zeros()
    bench.watchdog.stop()
    bench.watchdog.start()
    bench.wait_for_looks()
    assert bench.watchdog.take_late() == 0.0
    bench.now += bench.timeout + 0.001
    bench.wait_for_zeros()
