"""Which failures of system tests count as caused by the machine, and so repeat the test."""

from __future__ import annotations

import pytest
from system.machine_delays import MachineDelays, late_joint_states

NODE = "passivity_controller"
SILENCE = "safe torque: no joint states for 1.2 s"


def safe_at(now: float, message: str = SILENCE) -> MachineDelays:
    """Return the record of a controller that held at 10 s and is in mode safe at this time."""
    delays = MachineDelays()
    delays.reported(NODE, "hold", "", 10.0)
    delays.reported(NODE, "safe", message, now)
    return delays


def test_a_measured_stall_explains_missing_joint_states() -> None:
    delays = safe_at(11.0)
    delays.stalled(1.1, 11.3)
    assert delays.since(5.0) == delays.now() == {NODE}
    delays.reported(NODE, "hold", "", 12.0)
    assert delays.now() == set()
    assert delays.since(11.5) == {NODE}
    assert delays.since(12.5) == set()


def test_a_stall_before_the_change_or_long_after_it_explains_nothing() -> None:
    for end in (8.0, 13.0):
        delays = safe_at(11.0)
        delays.stalled(1.1, end)
        assert delays.since(0.0) == set()


def test_a_stall_that_is_too_short_explains_nothing() -> None:
    delays = safe_at(11.0)
    delays.stalled(0.4, 10.8)
    assert delays.since(0.0) == set()


def test_joint_states_that_the_test_itself_stops_are_no_stall() -> None:
    assert safe_at(11.0).since(0.0) == set()


@pytest.mark.parametrize(
    "message",
    [
        "safe torque: stamps jumped by 1.2 s",
        "safe torque: no torque could be published for 1.2 s",
        "safe torque: joint_3 does not move",
        "safe torque: the callback for joint states failed",
        "",
    ],
)
def test_another_reason_is_no_delay(message: str) -> None:
    assert late_joint_states(message) == 0.0
    delays = safe_at(11.0, message)
    delays.stalled(1.5, 10.9)
    assert delays.since(0.0) == set()


def test_a_new_reason_is_a_new_change() -> None:
    """A controller keeps its reason until it is resumed, which no report need show."""
    delays = safe_at(11.0, "safe torque: joint_3 does not move")
    delays.reported(NODE, "safe", "safe torque: joint_3 does not move", 11.5)
    assert delays.now() == set()
    delays.stalled(1.5, 11.9)
    delays.reported(NODE, "safe", SILENCE, 12.0)
    assert delays.now() == {NODE}
    delays.reported(NODE, "safe", "safe torque: joint_3 does not move", 12.5)
    assert delays.now() == set()


def test_a_stall_that_follows_another_reason_explains_nothing() -> None:
    delays = safe_at(11.0, "safe torque: joint_3 does not move")
    delays.stalled(1.5, 11.5)
    delays.reported(NODE, "safe", "safe torque: joint_3 does not move", 12.0)
    assert delays.since(0.0) == set()
