"""The order of the publications of one joint state: flag, torque, then everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from bench.loop.cycle import ComposedCycle, composed_cycle
from rbd_control.control import PassivityController
from rbd_control.estimation.isolation import LinkIsolation
from rbd_control.nodes import passivity_controller
from rbd_control.ros.contact_messages import StampedVerdict
from rbd_control.ros.messages import to_array
from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.threads import CallbackWatchdog

SETTLING = 1500
"""Joint states until there is a verdict."""
PUSH = np.array([0.0, 25.0, 0.0, 12.0, 0.0, 0.0, 0.0])
"""Joint torque of the push [N·m], by which the effort of the motors decreases."""
LONGEST = 100
"""Joint states within which the push is detected."""

TORQUE = "/effort_controller/commands"
FLAG = "/contact_detector/contact"
RESIDUAL = "/contact_detector/external_joint_torques"
VERDICT = "/contact_detector/contact_stamped"
EVENTS = "/contact_detector/events"
WRENCH = "/contact_detector/external_wrench"
MARKERS = "/contact_detector/markers"
ERROR = "/passivity_controller/tracking_error"
ENERGY = "/passivity_controller/energy"
ISOLATION = "isolation"


class Log(list[str]):
    """Topics in the order of their publications; ``ISOLATION`` where a contact is located."""

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Record publications instead of sending them, as if each topic had a subscriber."""
        look = LinkIsolation.look

        def publish(publisher: Publisher[Any], _message: object) -> None:
            self.append(publisher.topic_name)

        def isolate(this: LinkIsolation, *arguments: Any, **options: Any) -> Any:
            self.append(ISOLATION)
            return look(this, *arguments, **options)

        patch.setattr(Publisher, "publish", publish)
        patch.setattr(Publisher, "get_subscription_count", lambda _: 1)
        patch.setattr(LinkIsolation, "look", isolate)

    def of(self, work: Callable[[], None]) -> list[str]:
        """Return the publications of some work."""
        self.clear()
        work()
        return list(self)


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """Let no pause of this process on a busy machine count as silence of the joint states."""
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: 1e-5 * next(ticks), sleep=time.sleep)
    patch.setattr(passivity_controller, "time", clock)
    patch.setattr(CallbackWatchdog, "start", lambda _: None)


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with pytest.MonkeyPatch.context() as patch:
        log = Log()
        log.install(patch)
        be_patient(patch)
        yield log


@pytest.fixture(scope="module")
def cycle(log: Log) -> Iterator[ComposedCycle]:
    with reserved_domain() as domain, composed_cycle(domain) as cycle:
        cycle.run(SETTLING)
        assert not log.of(cycle.step).count(FLAG)
        yield cycle


def pushed(raw: bytes) -> bytes:
    """Return the joint state of an arm that is pushed."""
    message = deserialize_message(raw, JointState)
    message.effort = to_array(np.array(message.effort) - PUSH)
    return serialize_message(message)


def until_detected(cycle: ComposedCycle, log: Log) -> list[str]:
    """Push the arm; return the publications of the joint state that raises the flag."""
    for raw in cycle.take(LONGEST):
        found = log.of(lambda raw=raw: cycle.receive(pushed(raw)))  # type: ignore[misc]
        if FLAG in found:
            return found
    raise AssertionError("the push is not detected")


def without_force(found: list[str]) -> list[str]:
    """Return the publications without the force, which may be observable at once or later."""
    if WRENCH in found:
        assert found[found.index(EVENTS) + 1 :][:2] == [WRENCH, MARKERS]
    return [topic for topic in found if topic not in (WRENCH, MARKERS)]


def release(cycle: ComposedCycle, log: Log) -> None:
    """Let go of the arm until there is no contact."""
    for _ in range(SETTLING):
        if FLAG in log.of(cycle.step):
            return
    raise AssertionError("the contact does not end")


def test_the_torque_comes_first(cycle: ComposedCycle, log: Log) -> None:
    assert log.of(cycle.step) == [TORQUE, RESIDUAL, ERROR, ENERGY]


def test_the_flag_comes_before_the_torque_and_the_contact_after_it(
    cycle: ComposedCycle, log: Log
) -> None:
    found = until_detected(cycle, log)
    order = [FLAG, TORQUE, RESIDUAL, ISOLATION, VERDICT, EVENTS, ERROR, ENERGY]
    assert without_force(found) == order
    again = [log.of(lambda raw=raw: cycle.receive(pushed(raw))) for raw in cycle.take(100)]  # type: ignore[misc]
    assert [TORQUE, RESIDUAL, ISOLATION, WRENCH, MARKERS, ERROR, ENERGY] in again
    assert all(each[:2] == [TORQUE, RESIDUAL] for each in again)
    release(cycle, log)


def test_of_waiting_joint_states_the_torque_of_the_newest_comes_first(
    cycle: ComposedCycle, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All residuals, with the stamps of their samples, follow the torque."""
    waiting = cycle.take(3)
    arrivals = cycle.controller._input._arrivals
    monkeypatch.setattr(arrivals, "take", lambda _first: waiting)
    assert log.of(lambda: cycle.receive(waiting[0])) == [TORQUE, *[RESIDUAL] * 3, ERROR, ENERGY]


def test_a_failure_after_the_flag_changes_neither_torque_nor_verdict(
    cycle: ComposedCycle, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(StampedVerdict, "take", fail)
        assert until_detected(cycle, log)[:2] == [FLAG, TORQUE]
        for raw in cycle.take(5):
            found = log.of(lambda raw=raw: cycle.receive(pushed(raw)))  # type: ignore[misc]
            assert found[0] == TORQUE
            assert FLAG not in found  # the verdict stays
    assert cycle.detector.errors.failures["report of a sample"] >= 6
    assert cycle.controller.controller.mode == "hold"
    release(cycle, log)


def test_a_failure_of_the_controller_does_not_lose_the_verdict(
    cycle: ComposedCycle, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(PassivityController, "update", fail)
        with pytest.raises(RuntimeError, match="injected"):
            until_detected(cycle, log)
        # The guard of the subscription takes the error; the safe torque is sent.
        assert TORQUE in log
        assert RESIDUAL in log
