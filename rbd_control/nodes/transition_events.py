"""Lifecycle transitions that do not depend on the publication of their event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy._rclpy_pybind11 import RCLError


class StateMachine:
    """rclpy's lifecycle state machine, whose transitions do not fail because of their event.

    rcl changes the state, and then publishes ``~/transition_event``. If the middleware refuses this
    message, rclpy takes the transition for failed: it does not call the callback, and the node
    stays in the intermediate state, from which no request leads away. A node that should be
    deactivated would go on in the state ``deactivating``. Here the event is lost, and nothing else.

    All other attributes are those of the wrapped state machine.

    Args:
        machine: the state machine of an rclpy lifecycle node.
        refused: called with the error of the middleware for each event that it refuses.
    """

    def __init__(self, machine: Any, refused: Callable[[RCLError], None]) -> None:
        self._machine, self._refused = machine, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def trigger_transition_by_id(self, transition: int, publish: bool) -> None:
        """Start a transition, and publish its event if ``publish`` is true.

        Raises:
            RCLError: if there is no such transition from the present state.
        """
        self._trigger(self._machine.trigger_transition_by_id, transition, publish)

    def trigger_transition_by_label(self, label: str, publish: bool) -> None:
        """Complete a transition by the label of its result; otherwise as the method above."""
        self._trigger(self._machine.trigger_transition_by_label, label, publish)

    def _trigger(self, trigger: Callable[[Any, bool], None], which: object, publish: bool) -> None:
        before = self._machine.current_state
        try:
            trigger(which, publish)
        except RCLError as error:
            if self._machine.current_state == before:
                raise
            self._refused(error)
