"""Exclusive access to an arm: which looks count, and what two controllers at once do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode

from rbd_control.nodes.command_output import (
    BACK_OFF,
    LONGEST_GAP,
    LONGEST_STEP,
    POLL,
    ExclusiveAccess,
)
from rbd_control.ros.managed_node import NotReadyError

DURATION = 3.5
"""Default of the parameter ``discovery_time`` [s]."""

PERIOD = 0.05
"""Period at which a node looks [s]."""

ROUNDING = 1e-9
"""Rounding error of a sum of a hundred periods [s]."""


class Bench(FakeNode):
    """The access of a controller whose clock and ROS graph only the test changes.

    Attributes:
        now: time of the clock [s].
        look_lasts: time that passes while ROS counts publishers [s].
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now, self.look_lasts = 100.0, 0.0
        monkeypatch.setattr(time, "sleep", self._sleep)
        node: Any = self
        self.access = ExclusiveAccess(
            node, "commands", lambda: DURATION, lambda: False, lambda: None, lambda: self.now
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def count_publishers(self, _topic: str) -> int:
        self.now += self.look_lasts
        return self.publishers

    def look(self, seconds: float, period: float = PERIOD) -> float:
        """Look periodically for some time; return what is left afterwards [s]."""
        for _ in range(round(seconds / period)):
            self.now += period
            self.access.others()
        return self.access.time_left()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_an_undisturbed_look_takes_the_duration(bench: Bench) -> None:
    assert bench.look(DURATION - PERIOD) == pytest.approx(PERIOD, abs=ROUNDING)
    assert bench.look(PERIOD) == pytest.approx(0.0, abs=ROUNDING)


def pause_before_the_first_look(bench: Bench) -> None:
    bench.now += 10.0


def pause_at_the_end(bench: Bench) -> None:
    bench.look(DURATION - PERIOD)
    bench.now += 10.0


def pause_after_the_wait(bench: Bench) -> None:
    bench.look(DURATION + 1.0)
    bench.now += 10.0


def pause_while_ros_is_asked(bench: Bench) -> None:
    """The answer may be from before the pause."""
    bench.look(DURATION - PERIOD)
    bench.look_lasts = 10.0
    bench.access.others()
    bench.look_lasts = 0.0


@pytest.mark.parametrize(
    "pause",
    [
        pause_before_the_first_look,
        pause_at_the_end,
        pause_after_the_wait,
        pause_while_ros_is_asked,
    ],
)
def test_after_a_pause_the_look_starts_again(bench: Bench, pause: Callable[[Bench], None]) -> None:
    """During the pause another controller may have started that ROS has not discovered."""
    pause(bench)
    assert bench.look(DURATION - PERIOD) > 0.0
    assert bench.look(3.0 * PERIOD) == 0.0


def test_the_wait_calls_back_and_ends_when_others_appear(bench: Bench) -> None:
    calls: list[float] = []
    bench.access.wait(lambda: calls.append(bench.now))
    assert len(calls) == pytest.approx(DURATION / POLL, abs=3)
    bench.publishers = 2
    with pytest.raises(NotReadyError, match="other publishers of torque on /commands to end"):
        bench.access.wait()
    assert bench.access.conflict() == "2 other publishers of torque on /commands"


def test_of_two_that_open_at_once_both_give_way(bench: Bench) -> None:
    """Before the first torque; each tries again after a time of its own."""
    bench.look(DURATION + 1.0)
    bench.publishers = 1  # the own one
    bench.access.require_alone()
    waits = set()
    for _ in range(10):
        bench.publishers = 2
        with pytest.raises(NotReadyError, match="other publishers of torque"):
            bench.access.require_alone()
        waits.add(bench.access.time_left())
    assert len(waits) == 10
    assert 0.0 <= min(waits) < max(waits) <= BACK_OFF


def test_a_pause_after_the_wait_refuses_the_first_torque(bench: Bench) -> None:
    """The publisher exists, and another controller may have started meanwhile."""
    bench.look(DURATION)
    bench.publishers = 1
    bench.now += 10.0
    with pytest.raises(NotReadyError, match="this process was paused"):
        bench.access.require_alone()


def test_a_starved_node_looks_longer(bench: Bench) -> None:
    """Each look counts at most :data:`LONGEST_STEP`, however long the node was kept from it."""
    gap = 0.9 * LONGEST_GAP
    looks = DURATION / LONGEST_STEP
    assert bench.look((looks - 2.0) * gap, gap) > 0.0
    assert bench.look(3.0 * gap, gap) == 0.0
