"""The automatic configuration and activation of a node after its start."""

from __future__ import annotations

from typing import Protocol

from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.timer import Timer

from rbd_control.errors import RbdControlError
from rbd_control.nodes.guarded_node import GuardedNode

PERIOD = 0.05
"""Period of the attempts to configure and to activate the node [s]."""

LOG_PERIOD = 5.0
"""Period at which the missing condition is logged [s]."""


class NotReadyError(RbdControlError):
    """The node cannot be activated yet; with ``autostart`` it continues to wait."""


class Startable(Protocol):
    """The state and the transitions of a node that starts automatically."""

    stopping: bool
    exit_code: int | None

    @property
    def is_configured(self) -> bool:
        """Whether the node is configured."""

    @property
    def failure(self) -> BaseException | None:
        """The exception of the last transition; None if the transition succeeded."""

    def missing_to_configure(self) -> str:
        """Return the missing condition for the configuration, or an empty text."""

    def waiting_for(self) -> str:
        """Return the missing condition for the activation, or an empty text."""

    def trigger_configure(self) -> TransitionCallbackReturn:
        """Configure the node."""

    def trigger_activate(self) -> TransitionCallbackReturn:
        """Activate the node."""


class AutoStart:
    """Configures and activates a node as soon as its conditions are met, once.

    A failed transition ends the process with exit code 1, unless the node was not ready yet. The
    automatic start ends with the first transition that somebody else requests, see
    :meth:`give_up`, so that it cannot undo the decision of an operator.

    Args:
        node: creates the timer, and writes the log.
        start: the same node, as an object to configure and to activate.

    Attributes:
        is_pending: whether the node was not active yet, and no other transition was requested.
        waiting: the missing condition as text; an empty text while nothing is missing.
    """

    def __init__(self, node: GuardedNode, start: Startable) -> None:
        self._node, self._start = node, start
        self.is_pending = True
        self.waiting = ""
        self._timer: Timer = node.create_timer(PERIOD, self._try, clock=node.steady)

    def _try(self) -> None:
        """Try to configure and to activate; called periodically until the node was active."""
        start = self._start
        # A timer that was destroyed may still fire once.
        if not self.is_pending or start.stopping:
            return
        if not start.is_configured:
            if self._lacks(start.missing_to_configure()):
                return
            start.trigger_configure()
        if start.is_configured:
            if self._lacks(start.waiting_for()):
                return
            start.trigger_activate()
            if isinstance(start.failure, NotReadyError):
                return
        if start.failure and start.exit_code is None:
            start.exit_code = 1
        self._end()

    def give_up(self) -> None:
        """End the automatic start, because a lifecycle transition was requested by a service call.

        Call it before the transition. Later calls have no effect.
        """
        if self.is_pending:
            self._end()
            self._node.get_logger().info(
                "autostart ends: a lifecycle transition was requested; the node changes its state "
                "by further requests only"
            )

    def _end(self) -> None:
        self.waiting, self.is_pending = "", False
        self._node.destroy_timer(self._timer)

    def _lacks(self, missing: str) -> bool:
        """Store and log a missing condition; return whether there is one."""
        if missing:
            self.waiting = missing
            self._node.get_logger().info(
                f"waiting for {missing}", throttle_duration_sec=LOG_PERIOD, skip_first=True
            )
        return bool(missing)
