"""The automatic configuration and activation of a node after its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.timer import Timer

from rbd_control.errors import RbdControlError
from rbd_control.nodes.guarded_node import GuardedNode

PERIOD = 0.05
"""Period of the attempts to configure and to activate the node [s]."""

LOG_PERIOD = 5.0
"""Shortest time between two log lines about the condition that the node waits for [s]."""


class NotReadyError(RbdControlError):
    """The node cannot be activated yet: a condition is not met, or a signal ends the node.

    With ``autostart`` the activation is tried again every :data:`PERIOD`, unless the node ends.
    """


class Startable(Protocol):
    """Interface of a node that :class:`AutoStart` can configure and activate.

    Attributes:
        stopping: whether a signal has asked the node to end; no transition is started then.
        starts_after: called without arguments; returns the condition in other nodes of this process
            that the automatic activation waits for, as text; empty if it is met.
        exit_code: exit code of the process; None unless the node requests the end of the process.
    """

    stopping: bool
    starts_after: Callable[[], str]
    exit_code: int | None

    @property
    def is_configured(self) -> bool:
        """Whether the node is configured."""

    @property
    def failure(self) -> BaseException | None:
        """The exception of the last transition; None if the transition succeeded."""

    def missing_to_configure(self) -> str:
        """Return the condition that the configuration waits for, as text; empty if it is met."""

    def waiting_for(self) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met."""

    def trigger_configure(self) -> TransitionCallbackReturn:
        """Run the lifecycle transition *configure*; :attr:`failure` has the error if it fails."""

    def trigger_activate(self) -> TransitionCallbackReturn:
        """Run the lifecycle transition *activate*; :attr:`failure` has the error if it fails."""


class AutoStart:
    """Configures and activates a node as soon as its conditions are met, once.

    A timer that the constructor creates makes an attempt every :data:`PERIOD`. A failed
    configuration or activation ends the process with exit code 1; only after a
    :class:`NotReadyError` of the activation the attempts continue. The automatic start ends with
    the first transition that a service call requests, see :meth:`give_up`, so that it cannot undo
    the decision of an operator.

    Args:
        node: creates the timer, and writes the log.
        start: the same node, as an object to configure and to activate.

    Attributes:
        is_pending: whether the attempts continue; False after the activation, after a failure that
            ends the process, and after :meth:`give_up`.
        obstacle: why the last attempt did not activate the node, such as "waiting for joint
            states"; empty before the first attempt and after the end of the automatic start.
    """

    def __init__(self, node: GuardedNode, start: Startable) -> None:
        self._node, self._start = node, start
        self.is_pending = True
        self.obstacle = ""
        self._timer: Timer = node.create_timer(PERIOD, self._try, clock=node.steady)

    def _try(self) -> None:
        """Try to configure the node, if it is not configured, and then to activate it."""
        start = self._start
        # A timer that was destroyed may still fire once.
        if not self.is_pending or start.stopping:
            return
        if not start.is_configured:
            if self._lacks(start.missing_to_configure()):
                return
            start.trigger_configure()
        if start.is_configured:
            if self._lacks(start.starts_after() or start.waiting_for()):
                return
            start.trigger_activate()
            if isinstance(start.failure, NotReadyError):
                self.obstacle = str(start.failure)
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
        self.obstacle, self.is_pending = "", False
        self._node.destroy_timer(self._timer)

    def _lacks(self, missing: str) -> bool:
        """Store a missing condition as ``obstacle``, log it, and return whether there is one."""
        self.obstacle = f"waiting for {missing}" if missing else ""
        if missing:
            self._node.get_logger().info(
                self.obstacle, throttle_duration_sec=LOG_PERIOD, skip_first=True
            )
        return bool(missing)
