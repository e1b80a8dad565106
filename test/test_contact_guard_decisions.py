"""Decisions of the contact guard in this process: collisions, retreat, overload, life cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from action_msgs.msg import GoalStatus, GoalStatusArray
from contact_event import EVENT
from detector_bench import Bench, on_joint
from diagnostic_msgs.msg import DiagnosticArray
from fake_node import FakePublisher
from guard_cell import DURATION, Cell, cell, seconds
from lifecycle_msgs.msg import State
from rclpy.lifecycle import TransitionCallbackReturn
from robots import panda_arm_urdf
from std_msgs.msg import Bool

from rbd_control.contact_stop import ContactStop
from rbd_control.dynamics import Model
from rbd_control.nodes.contact_guard import LATE_LOOKS, LATEST_RETREAT, ContactGuard
from rbd_control.nodes.stop_orders import GoalCanceller, StopOrders
from rbd_control.ros.contact_messages import StampedVerdict, event_message
from rbd_control.ros.messages import Stamp
from rbd_control.ros.threads import CallbackWatchdog

# Collisions ---------------------------------------------------------------------------------------


def verdicts_of_a_rising_push(model: Model) -> tuple[list[DiagnosticArray], int]:
    """Return the stamped verdicts of a push that becomes a collision, and their number before it.

    There is no event when the level rises.
    """
    sent: Any = FakePublisher()
    output = StampedVerdict(sent, "contact_detector", model.joint_names, "base")
    bench, before = Bench(model), 0
    for torque in (0.0, 5.0, 20.0):
        before = len(sent)
        for detection in bench.run(0.3, on_joint(1, torque)):
            output.take(detection, bench.detector.contact_threshold, Stamp(1, 0))
    assert [event.phase for event in bench.events] == ["onset"]
    return sent, before


def test_a_contact_that_becomes_a_collision_stops_the_arm_at_once() -> None:
    messages, before = verdicts_of_a_rising_push(Model.from_urdf(panda_arm_urdf()))
    with cell(stop_at="collision", longest_contact=60.0) as c:
        c.guard._on_contact(Bool(data=True))
        for message in messages[:before]:
            c.guard._on_level(message)
        c.run(0.5)
        assert c.report()[1]["guard"] == "watching"
        c.guard._on_level(messages[before])
        values = c.report()[1]
        assert (values["guard"], values["stops"]) == ("stopping", "1")
        assert c.guard._stop.reason == "collision"


@pytest.mark.parametrize(("level", "state"), [("contact", "watching"), ("collision", "stopping")])
def test_the_release_of_a_collision_stops_the_arm(level: Any, state: str) -> None:
    """The onset of the contact was of level contact, and no stamped verdict was received."""
    with cell(stop_at="collision", longest_contact=60.0) as c:
        released = replace(EVENT, phase="release", level=level, release=9.5)
        for event in (EVENT, released):
            c.guard._on_events(event_message("detector", event, Stamp(9, 0)))
        assert c.report()[1]["guard"] == state


# The retreat --------------------------------------------------------------------------------------


def test_a_retreat_that_is_slowed_down_is_supervised_to_its_end() -> None:
    """The hold is at the arm, not at the planned position, which is ahead of it."""
    with cell() as c:
        c.arm.scale = 0.5
        c.retreat()
        assert c.report()[1]["retreat"] == "retreating"
        c.run(DURATION)
        assert c.resume() == "cannot resume: the retreat has not ended yet"
        c.flag = True
        c.step()
        hold = c.assert_held("contact")
        assert hold.points[0].positions[0] == pytest.approx(c.arm.position, abs=0.002)
        assert seconds(hold) == pytest.approx(0.1)
        assert "cannot resume: the retreat has not ended yet" in c.resume()
        c.flag = False
        c.run_until(lambda: c.resume() == "watching", 1.0)
        assert c.report()[1]["retreat"] == "none"


def test_a_defect_stops_the_retreat() -> None:
    """After an exception nothing is certain."""
    with cell() as c:
        c.retreat()

        def failing() -> None:
            raise RuntimeError("injected")

        c.guard.errors.run("callback", failing)
        c.assert_held("callback failed: RuntimeError: injected")


@pytest.mark.parametrize("refused", [False, True])
def test_deactivation_stops_the_retreat(refused: bool) -> None:
    with cell() as c:
        c.retreat()
        c.refuses = refused

        def accept(period: float) -> None:
            c.now += period
            c.refuses = False

        c.clock.sleep = accept
        c.guard.trigger_deactivate()
        c.assert_held("the guard is deactivated")


def test_a_refused_hold_is_repeated_at_the_present_position() -> None:
    with cell() as c:
        c.retreat()
        c.refuses = c.flag = True
        c.step()
        c.run(0.5)
        assert c.resume() == "cannot resume: the retreat has not ended yet"
        c.refuses = False
        c.step()
        hold = c.assert_held("contact")
        assert hold.points[0].positions[0] == pytest.approx(c.arm.position, abs=0.002)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("verdict", "no verdict about contact for"),
        ("joint states", "standstill is unknown"),
        ("path", "no travelled path is stored"),
        ("time", "the stop took more than 5 s"),
    ],
)
def test_no_retreat_begins_without_supervision_or_path(missing: str, reason: str) -> None:
    """Nor after a late stop: an operator may have begun to move the arm."""
    with cell() as c:
        c.stop()
        with pytest.MonkeyPatch.context() as patch:
            # A server that does not answer delays the end of the stop.
            patch.setattr(type(c.guard._orders_made), "are_settled", False)
            c.run(0.2)
            if missing == "verdict":
                c.flag = None
            elif missing == "joint states":
                c.hears = False
            elif missing == "path":
                c.guard._retreat.reset()
            c.run(LATEST_RETREAT if missing == "time" else 1.0)
        c.step()
        assert [line for line in c.said if line.startswith(f"no retreat: {reason}")]
        c.flag, c.hears = False, True
        c.run(2.0)
        assert not c.trajectories


# Overload -----------------------------------------------------------------------------------------


def late(c: Cell, time_: float, looks: int = LATE_LOOKS) -> None:
    """Let the callback thread be late, and the watchdog thread look."""
    c.now += time_
    for _ in range(looks):
        c.guard.errors.run("watchdog", c.guard._watch_late)


@pytest.mark.parametrize("stop_on_silence", [True, False])
def test_silence_stops_the_arm_while_the_callbacks_are_late(stop_on_silence: bool) -> None:
    """Without ``stop_on_silence`` the overload stops it."""
    with cell(stop_on_silence=stop_on_silence, silence_timeout=0.2) as c:
        c.run(0.1)
        c.flag = None
        c.run(0.18)
        late(c, 0.05)
        silent = "no verdict about contact for 0.2 s"
        assert c.guard._stop.reason == (silent if stop_on_silence else "")
        late(c, 0.2)
        reason = silent if stop_on_silence else "the guard is overloaded or blocked: its checks are"
        assert c.guard._stop.reason.startswith(reason)


def test_after_a_pause_the_callbacks_have_some_time() -> None:
    with cell() as c:
        c.run(0.1)
        late(c, 2.0, LATE_LOOKS - 1)
        assert not c.guard._stop.is_latched
        c.step()
        late(c, 0.0)
        assert not c.guard._stop.is_latched


def test_callbacks_that_hang_hold_a_retreat() -> None:
    """After 0.5 s, as nothing supervises it."""
    with cell() as c:
        c.retreat()
        late(c, 0.45)
        assert len(c.trajectories) == 1
        late(c, 0.1)
        c.assert_held("the guard is overloaded or blocked: its checks are 0.55 s late")
        c.run_until(lambda: c.resume() == "watching")


def test_a_defect_of_the_watchdog_stops_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> bool:
        raise RuntimeError("injected")

    with cell() as c:
        c.run(0.1)
        monkeypatch.setattr(type(c.guard._stop), "check", failing)
        late(c, 0.1)
        assert c.guard._stop.reason.startswith("watchdog failed: RuntimeError: injected")


# Life cycle ---------------------------------------------------------------------------------------


def start_goal(c: Cell) -> None:
    """Let the guard receive the status of the action with a goal that has just begun."""
    status = GoalStatus(status=GoalStatus.STATUS_EXECUTING)
    c.guard._orders_made._cancellers[0]._on_status(GoalStatusArray(status_list=[status]))


def fail(*_: object) -> None:
    raise RuntimeError("the middleware does not support this")


STEPS = [
    (ContactGuard, "deactivate"),
    (CallbackWatchdog, "stop"),
    (ContactStop, "end"),
    (StopOrders, "end"),
]
"""Methods of which each may fail in a deactivation."""


@pytest.mark.parametrize(
    ("owner", "step"), STEPS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_node_whose_deactivation_fails_is_inactive(
    owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed deactivation during a stop, the guard cancels no new goal.

    It can be activated again; then it cancels new goals only from the next stop on.
    """
    cancelled: list[str] = []
    monkeypatch.setattr(GoalCanceller, "send", lambda canceller: cancelled.append(canceller.name))
    with cell() as c:
        c.stop()
        assert cancelled == ["/follow"]
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, fail)
            assert c.guard.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
        assert "cannot deactivate: RuntimeError" in "".join(c.said)
        assert not c.guard.is_active
        assert c.guard._state_machine.current_state[0] == State.PRIMARY_STATE_INACTIVE
        start_goal(c)
        assert c.guard.trigger_activate() == TransitionCallbackReturn.SUCCESS
        assert c.report()[1]["guard"] == "watching"
        start_goal(c)
        assert cancelled == ["/follow"]
        c.flag = True
        c.step()
        start_goal(c)
        assert cancelled == 3 * ["/follow"]


def test_a_deactivation_that_fails_stops_the_retreat(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inactive guard does not supervise the retreat."""
    with cell() as c:
        c.retreat()
        with monkeypatch.context() as patch:
            patch.setattr(StopOrders, "end", fail)
            c.guard.trigger_deactivate()
        c.assert_held("the guard is deactivated")
