"""The claim of a controller: only time in which the node looked for others counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.claim import LONGEST_GAP, LONGEST_STEP, Claim

DURATION = 3.5
"""Default of the parameter ``discovery_time`` [s]."""

PERIOD = 0.05
"""Period at which a node looks [s]."""

ROUNDING = 1e-9
"""Rounding error of a sum of a hundred periods [s]."""


class Bench:
    """A claim whose clock and ROS graph only the test changes.

    Attributes:
        now: time of the clock [s].
        others: number of claims of other controllers.
        look_lasts: time that passes while ROS counts publishers [s].
    """

    def __init__(self) -> None:
        self.now, self.others, self.look_lasts = 100.0, 0, 0.0
        self._own = False
        node: Any = self
        self.claim = Claim(node, "commands/claim", lambda: DURATION, lambda: self.now)

    def create_publisher(self, *_: object) -> Any:
        self._own = True
        return object()

    def destroy_publisher(self, _publisher: object) -> None:
        self._own = False

    def count_publishers(self, _topic: str) -> int:
        self.now += self.look_lasts
        return self.others + self._own

    def is_claimed(self) -> bool:
        """Return whether this controller's claim exists."""
        return self._own

    def look(self, seconds: float, period: float = PERIOD) -> float:
        """Look periodically for some time; return what is left afterwards [s]."""
        left = self.claim.time_left()
        for _ in range(round(seconds / period)):
            self.now += period
            left = self.claim.time_left()
        return left


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.claim.make()
    return bench


def test_an_undisturbed_look_takes_the_duration(bench: Bench) -> None:
    assert bench.look(DURATION - PERIOD) == pytest.approx(PERIOD, abs=ROUNDING)
    assert bench.look(PERIOD) == pytest.approx(0.0, abs=ROUNDING)


def pause_before_the_first_look(bench: Bench) -> None:
    bench.now += 10.0


def pause_in_the_middle(bench: Bench) -> None:
    bench.look(2.0)
    bench.now += 10.0


def pause_at_the_end(bench: Bench) -> None:
    bench.look(DURATION - PERIOD)
    bench.now += 10.0


def pause_after_the_claim_was_free(bench: Bench) -> None:
    bench.look(DURATION + 1.0)
    bench.now += 10.0


def pause_while_ros_is_asked(bench: Bench) -> None:
    """The answer may be from before the pause."""
    bench.look(DURATION - PERIOD)
    bench.now += PERIOD
    bench.look_lasts = 10.0
    bench.claim.look()
    bench.look_lasts = 0.0


@pytest.mark.parametrize(
    "pause",
    [
        pause_before_the_first_look,
        pause_in_the_middle,
        pause_at_the_end,
        pause_after_the_claim_was_free,
        pause_while_ros_is_asked,
    ],
)
def test_after_a_pause_the_look_starts_again(bench: Bench, pause: Callable[[Bench], None]) -> None:
    """During the pause another controller may have started that ROS has not discovered yet."""
    pause(bench)
    assert bench.look(DURATION - PERIOD) > 0.0
    assert bench.look(2.0 * PERIOD) == 0.0


def test_a_starved_node_looks_longer(bench: Bench) -> None:
    """Each look counts at most :data:`LONGEST_STEP`, however long the node was kept from it."""
    gap = 0.9 * LONGEST_GAP
    looks = DURATION / LONGEST_STEP
    assert bench.look((looks - 2.0) * gap, gap) > 0.0
    assert bench.look(3.0 * gap, gap) == 0.0


def test_a_pause_during_the_back_off_shortens_no_look(bench: Bench) -> None:
    """A withdrawn claim is renewed when the back-off is over, and looked at in full."""
    bench.look(DURATION - PERIOD)
    bench.others = 1
    assert bench.look(PERIOD) >= DURATION
    assert not bench.is_claimed()
    bench.others = 0
    bench.now += 10.0  # longer than the longest back-off
    assert bench.claim.time_left() == pytest.approx(DURATION, abs=ROUNDING)
    assert bench.is_claimed()
    assert bench.look(DURATION - PERIOD) > 0.0
    assert bench.look(2.0 * PERIOD) == 0.0


def test_another_claim_found_after_a_pause_is_given_way_to(bench: Bench) -> None:
    """Discovery shows the other controller some time after the process goes on."""
    bench.look(DURATION - PERIOD)
    bench.now += 10.0
    assert bench.look(1.0) > 0.0
    bench.others = 1
    assert bench.look(PERIOD) >= DURATION
    assert not bench.is_claimed()


def test_a_claim_that_lasts_is_answered_by_the_own_claim() -> None:
    """A controller that does not start withdraws its claim, but only if it sees another one."""
    bench = Bench()
    bench.claim.make()
    bench.others = 1
    bench.look(1.0)
    assert not bench.is_claimed()
    shown = 0.0
    for _ in range(round(4.0 * DURATION / PERIOD)):
        bench.look(PERIOD)
        shown += PERIOD * bench.is_claimed()
    # At least one look of the other controller, and no more than it needs.
    assert LONGEST_STEP < shown < 1.0
