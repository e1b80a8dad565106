"""Lifecycle transitions whose event the middleware refuses to publish."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from lifecycle_msgs.msg import Transition
from rclpy._rclpy_pybind11 import RCLError
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn

from rbd_control.ros.fault_tolerant_node import StateMachine

ACTIVE, DEACTIVATING, INACTIVE = (3, "active"), (14, "deactivating"), (2, "inactive")


class Machine:
    """Takes the place of the C object with the states of a node, in its deactivation.

    Args:
        refused: numbers of the events that the middleware refuses, counted from 1.
    """

    initialized = True

    def __init__(self, *refused: int) -> None:
        self.current_state = ACTIVE
        self._refused, self._events = refused, 0

    def trigger_transition_by_id(self, transition: int, publish: bool) -> None:
        is_possible = transition == Transition.TRANSITION_DEACTIVATE
        self._change(ACTIVE, DEACTIVATING, is_possible, publish)

    def trigger_transition_by_label(self, label: str, publish: bool) -> None:
        self._change(DEACTIVATING, INACTIVE, label == "transition_success", publish)

    def _change(
        self, before: tuple[int, str], after: tuple[int, str], is_possible: bool, publish: bool
    ) -> None:
        if not is_possible or self.current_state != before:
            raise RCLError("no such transition")
        self.current_state = after
        self._events += publish
        if self._events in self._refused:
            raise RCLError("Could not publish transition")


class Node:
    """A lifecycle node whose transitions are those of rclpy, with this state machine."""

    def __init__(self, machine: Machine) -> None:
        self.called: list[str] = []
        self.refused: list[RCLError] = []
        self.node: Any = LifecycleNode.__new__(LifecycleNode)
        self.node.__dict__.update(
            _state_machine=StateMachine(machine, self.refused.append),
            _logger=SimpleNamespace(error=lambda _text: None),
            _callbacks={DEACTIVATING[0]: self._deactivate},
        )

    def _deactivate(self, _state: object) -> TransitionCallbackReturn:
        self.called.append("deactivate")
        return TransitionCallbackReturn.SUCCESS


@pytest.mark.parametrize("refused", [(), (1,), (1, 2)], ids=str)
def test_a_deactivation_takes_place_although_its_events_are_refused(
    refused: tuple[int, ...],
) -> None:
    """The callback was not called, and the node went on in the state ``deactivating``."""
    deactivated = Node(Machine(*refused))
    assert deactivated.node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    assert deactivated.called == ["deactivate"]
    assert deactivated.node._state_machine.current_state == INACTIVE
    assert len(deactivated.refused) == len(refused)


def test_a_transition_that_does_not_exist_fails() -> None:
    refused: list[RCLError] = []
    machine = StateMachine(Machine(), refused.append)
    with pytest.raises(RCLError, match="no such transition"):
        machine.trigger_transition_by_id(Transition.TRANSITION_ACTIVATE, True)
    assert machine.current_state == ACTIVE
    assert not refused
