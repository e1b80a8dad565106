"""Decisions of the contact guard in this process: collisions, late stops, pauses, its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from action_msgs.msg import GoalStatus, GoalStatusArray
from contact_event import EVENT
from detector_bench import Bench, on_joint
from diagnostic_msgs.msg import DiagnosticArray
from fake_node import FakePublisher
from lifecycle_msgs.msg import State
from rclpy._rclpy_pybind11 import RCLError
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from robots import panda_arm_urdf
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.contact_stop import ContactStop
from rbd_control.contact_stop.arm_motion import RECOVERY
from rbd_control.dynamics import Model
from rbd_control.nodes.contact_guard import LATEST_RETREAT, STAMPED, ContactGuard
from rbd_control.nodes.retreat_output import RetreatOutput
from rbd_control.nodes.stop_orders import GoalCanceller, StopOrders, StopRequest
from rbd_control.ros.contact_messages import StampedVerdict, event_message
from rbd_control.ros.diagnostics import ERROR, Status
from rbd_control.ros.messages import Stamp, to_stamp
from rbd_control.ros.threads import CallbackWatchdog

from .fault_setting import ros_here
from .test_contact_guard_retreat import STEP, Cell, cell


def report(guard: ContactGuard) -> tuple[Status, dict[str, str]]:
    """Return the status of a guard, and its values."""
    status = Status()
    guard._report(status)
    return status, {item.key: item.value for item in status.values}


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
        assert report(c.guard)[1]["guard"] == "watching"
        c.guard._on_level(messages[before])
        values = report(c.guard)[1]
        assert (values["guard"], values["stops"]) == ("stopping", "1")
        assert c.guard._stop.reason == "collision"


def test_only_a_guard_that_stops_at_collisions_subscribes_to_the_level() -> None:
    def topics(guard: ContactGuard) -> list[str]:
        return [each.topic_name for each in guard.subscriptions if STAMPED in each.topic_name]

    with cell() as c:
        assert topics(c.guard) == []
        for value, expected in (("collision", [f"/{STAMPED}"]), ("contact", [])):
            c.guard.set_parameters([Parameter("stop_at", value=value)])
            assert topics(c.guard) == expected
        c.guard.set_parameters([Parameter("stop_at", value="collision")])
        c.guard.trigger_deactivate()
        c.guard.trigger_cleanup()
        assert topics(c.guard) == []
        c.guard.trigger_configure()
        assert topics(c.guard) == [f"/{STAMPED}"]


@pytest.mark.parametrize(("level", "state"), [("contact", "watching"), ("collision", "stopping")])
def test_the_release_of_a_collision_stops_the_arm(level: Any, state: str) -> None:
    """The onset of the contact was of level contact, and no stamped verdict was received."""
    with cell(stop_at="collision", longest_contact=60.0) as c:
        released = replace(EVENT, phase="release", level=level, release=9.5)
        for event in (EVENT, released):
            c.guard._on_events(event_message("detector", event, Stamp(9, 0)))
        assert report(c.guard)[1]["guard"] == state


# The retreat --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delay", "retreats"), [(-0.2, True), (0.2, False)])
def test_after_a_late_stop_there_is_no_retreat(delay: float, retreats: bool) -> None:
    """An operator may have begun to move the arm; the path is still stored."""
    with cell() as c:
        c.stop()
        with pytest.MonkeyPatch.context() as patch:
            # A server that does not answer delays the end of the stop.
            patch.setattr(type(c.guard._orders_made), "are_settled", False)
            c.run(LATEST_RETREAT + delay)
        c.step()
        assert bool(c.trajectories) == retreats
        refused = "no retreat: the stop took more than 5 s"
        assert (refused in c.said) != retreats


def test_joint_states_that_arrive_together_hide_no_gap_in_the_path() -> None:
    """Only the stamps show that the arm moved elsewhere in between, as while the guard paused."""
    with cell() as c:
        c.hears = False
        for k in range(60):
            stamp, position = (STEP * k, 0.002 * k) if k < 50 else (5.0 + STEP * k, 0.2)
            message = JointState(name=["elbow"], position=[position], velocity=[0.0])
            message.header.stamp = to_stamp(100.0 + stamp)
            c.step()
            c.guard._on_joint_state(message)
        c.arm.position, c.hears, c.flag = 0.2, True, True
        c.step()
        c.flag = False
        c.run(1.0)
        assert "no retreat: no travelled path is stored" in c.said
        assert not c.trajectories


@pytest.mark.parametrize("pause", [0.15, 0.4])
def test_after_a_pause_a_retreat_waits_until_messages_must_be_new(pause: float) -> None:
    """The guard is paused shortly before the stop is confirmed."""
    with cell() as c:
        c.stop()
        c.run(0.05)
        c.now += pause
        end = c.now
        c.guard._watch()  # before the flags and joint states of the pause
        assert not c.trajectories
        c.run(RECOVERY)
        assert not c.trajectories
        c.run_until(lambda: report(c.guard)[1]["guard"] == "stopped")
        assert c.now - end >= RECOVERY
        # After a gap of more than 0.2 s in the joint states, no path is stored.
        assert bool(c.trajectories) == (pause < 0.2)


# Configuration and report -------------------------------------------------------------------------


def test_an_invalid_retreat_topic_is_refused_with_the_reason() -> None:
    parameters = ("joints:=[elbow]", "retreat_distance:=0.1", "retreat_topic:=no//topic")
    with ros_here("autostart:=false", *parameters), pytest.MonkeyPatch.context() as patch:
        guard, said = ContactGuard(), list[str]()
        write: Callable[..., None] = lambda text, **_: said.append(text)  # noqa: E731
        log = SimpleNamespace(info=write, warning=write, error=write)
        patch.setattr(guard, "get_logger", lambda: log)
        assert guard.trigger_configure() == TransitionCallbackReturn.FAILURE
        (line,) = said
        assert line.startswith("cannot configure: retreat_topic: ")
        assert "no//topic" in line
        assert guard._state_machine.current_state[0] == State.PRIMARY_STATE_UNCONFIGURED
        # Neither clients nor values of a configuration that failed are left.
        assert guard._orders is None
        assert report(guard)[1] == {}
        guard.end()
        guard.destroy_node()


def test_an_inactive_guard_reports_no_stop_in_progress() -> None:
    """After a deactivation in a stop, servers that have not answered are no error any more."""

    def errors(c: Cell) -> list[str]:
        status = report(c.guard)[0]
        return status.messages if status.level == ERROR else []

    with cell() as c, pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopRequest, "look", lambda request: setattr(request, "is_there", True))
        c.guard._look()
        c.stop()
        name = "/follow/_action/cancel_goal"
        assert errors(c) == [f"{name} does not answer"]
        c.guard.trigger_deactivate()
        status, values = report(c.guard)
        assert errors(c) == []
        assert not any("call ~/resume" in message for message in status.messages)
        assert (values[name], values["stops"]) == ("there", "1")
        c.now += STEP
        c.guard.trigger_activate()
        assert report(c.guard)[1]["guard"] == "watching"


# Lifecycle ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (ContactGuard, "deactivate"),
        (CallbackWatchdog, "stop"),
        (ContactStop, "end"),
        (StopOrders, "end"),
        (RetreatOutput, "end"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_node_whose_deactivation_fails_is_inactive(
    owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[116] After a failed deactivation during a stop, the guard cancels no new goal.

    It can be activated again; then it cancels new goals only from the next stop on.
    """

    def fail(*_: object) -> None:
        raise RuntimeError("the middleware does not support this")

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
        assert c.guard._state_machine.current_state[0] == State.PRIMARY_STATE_ACTIVE
        assert report(c.guard)[1]["guard"] == "watching"
        start_goal(c)
        assert cancelled == ["/follow"]
        c.flag = True
        c.step()
        assert cancelled == 2 * ["/follow"]
        start_goal(c)
        assert cancelled == 3 * ["/follow"]


@pytest.mark.parametrize(
    ("owner", "step"),
    [(CallbackWatchdog, "stop"), (ContactStop, "end"), (StopOrders, "end")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_deactivation_that_fails_stops_the_retreat(
    owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[116] An inactive guard does not supervise the retreat."""

    def fail(*_: object) -> None:
        raise RuntimeError("the middleware does not support this")

    with cell() as c:
        c.retreat()
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, fail)
            c.guard.trigger_deactivate()
        c.assert_held("the guard is deactivated")


def test_refused_events_of_transitions_change_no_transition() -> None:
    """[130] A guard that could not publish them was neither activated nor deactivated."""
    with cell() as c, pytest.MonkeyPatch.context() as patch:
        machine = c.guard._state_machine
        patch.setattr(machine, "_machine", Refusing(machine._machine))
        for transition, state in (
            (c.guard.trigger_deactivate, State.PRIMARY_STATE_INACTIVE),
            (c.guard.trigger_activate, State.PRIMARY_STATE_ACTIVE),
            (c.guard.trigger_shutdown, State.PRIMARY_STATE_FINALIZED),
        ):
            assert transition() == TransitionCallbackReturn.SUCCESS
            assert machine.current_state[0] == state
            assert c.guard.is_active == (state == State.PRIMARY_STATE_ACTIVE)
        assert c.guard.refusals.counts["/contact_guard/transition_event"] == 6


class Refusing:
    """A state machine of rclpy whose middleware refuses the event of each transition."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def trigger_transition_by_id(self, transition: int, publish: bool) -> None:
        self._machine.trigger_transition_by_id(transition, publish)
        raise RCLError("Could not publish transition")

    def trigger_transition_by_label(self, label: str, publish: bool) -> None:
        self._machine.trigger_transition_by_label(label, publish)
        raise RCLError("Could not publish transition")


def start_goal(c: Cell) -> None:
    """Let the guard receive the status of the action with a goal that has just begun."""
    status = GoalStatus(status=GoalStatus.STATUS_EXECUTING)
    c.guard._orders_made._cancellers[0]._on_status(GoalStatusArray(status_list=[status]))
