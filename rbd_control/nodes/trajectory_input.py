"""Input of trajectories: checked for size, planned in the background, then followed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from rbd_control.control import PassivityController, PlannedTrajectory
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.control.planner import LEAD, LEAD_PER_POINT
from rbd_control.errors import StalePlanError, TrajectoryError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.diagnostics import Status
from rbd_control.nodes.guard import LOG_PERIOD
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.planning_thread import PlanningThread
from rbd_control.nodes.trajectory_wire import TrajectoryMessage, check_size, read_trajectory

MOST_ATTEMPTS = 4
"""Maximum number of planning attempts before a trajectory is refused as too late."""

MOST_LOGGED = 10
"""Maximum number of refusals that are logged within :data:`LOG_PERIOD` seconds."""

LEAD_FACTOR = 3.0
"""Factor by which the time for planning grows from one attempt to the next."""


class _Order(NamedTuple):
    """A trajectory to plan."""

    read: Callable[[], TrajectoryMessage]
    """Returns the trajectory; called by the planning thread."""
    goal: TrajectoryGoal | None
    """Receives the outcome; None if no sender waits for it."""
    attempt: int = 0
    """Number of previous planning attempts."""


class _Plan(NamedTuple):
    """The plan for a trajectory message."""

    order: _Order
    planned: PlannedTrajectory


class TrajectoryInput:
    """Plans the trajectories of ``~/joint_trajectory`` and of the action during the present motion.

    The action is ``~/follow_joint_trajectory``. The callback of the topic checks the size of the
    message and passes it to a thread, which reads and plans it; :meth:`submit` passes a goal of the
    action to this thread. :meth:`accept`, called with each joint state, follows a plan that is
    ready, in some microseconds. If a plan is too late for the motion on which it is based, the
    trajectory is planned again: a small trajectory at once (about 1 ms), a large one by the thread
    with more time.

    Args:
        node: the node.
    """

    def __init__(self, node: ManagedNode[NodeParameters]) -> None:
        self._node = node
        self._refused = 0
        self._logged: deque[float] = deque()
        self._discarded: deque[str] = deque()
        """Log lines that :meth:`tell` writes."""
        # Both the callback thread and the planning thread refuse trajectories.
        self._lock = Lock()
        self._controller: PassivityController | None = None
        self._thread: PlanningThread[_Order, _Plan] | None = None
        node.create_subscription(
            JointTrajectory, "~/joint_trajectory", self._receive, QoSProfile(depth=10), raw=True
        )

    def start(self, controller: PassivityController) -> None:
        """Start the planning thread, and accept trajectories for this controller."""
        self._controller = controller
        self._thread = PlanningThread(self._plan, self._refuse, _supersede, _is_wanted)

    def stop(self) -> None:
        """Stop accepting trajectories, and discard those that are not followed yet.

        The goals of discarded trajectories are not ended here.
        """
        if self._thread is not None:
            self._thread.end()
            self._thread = None
        self.tell()

    def accept(self) -> None:
        """Let the controller follow the newest planned trajectory, if any."""
        plan = None if self._thread is None else self._thread.take()
        if plan is None or self._controller is None:
            return
        if not _is_wanted(plan.order):  # it was cancelled meanwhile
            return
        try:
            self._controller.accept(plan.planned, plan.order.goal)
        except StalePlanError as error:
            self._plan_again(plan.order, error)
        except TrajectoryError as error:
            self._refuse(plan.order, error)

    def tell(self) -> None:
        """Log the discarded trajectories; call it where no torque waits for the log."""
        while self._discarded:
            self._node.get_logger().info(self._discarded.popleft())

    def discard(self, why: str) -> bool:
        """Discard trajectories that the controller does not follow yet, and abort their goals.

        The trajectory that the arm follows is not affected. :meth:`tell` logs the discarded
        trajectories: a contact discards them before the flag and the torque are published.

        Args:
            why: the reason as text, for the log and for the senders of goals.

        Returns:
            Whether a trajectory was discarded.
        """
        discarded = [] if self._thread is None else self._thread.discard()
        for order in discarded:
            if order.goal is not None:
                order.goal.interrupt(why)
        if discarded:
            self._discarded.append(f"the trajectory being planned is discarded: {why}")
        return bool(discarded)

    def submit(self, read: Callable[[], TrajectoryMessage], goal: TrajectoryGoal) -> None:
        """Plan a trajectory of a goal of the action; it is followed when :meth:`accept` is called.

        While the controller is not active, the goal is interrupted at once.

        Args:
            read: returns the trajectory; called by the planning thread, and may raise a
                :class:`TrajectoryError`.
            goal: receives the outcome of planning and motion.
        """
        if self._thread is None:
            goal.interrupt("the controller is not active")
        else:
            self._thread.submit(_Order(read, goal))

    def report(self, status: Status) -> None:
        """Add the count of refused trajectories to the diagnostics."""
        status.add("trajectories refused", self._refused)

    def _receive(self, raw: bytes) -> None:
        try:
            if self._thread is None or self._controller is None or not self._node.is_active:
                raise TrajectoryError("the controller is not active")
            self._controller.modes.require_free()  # planning may take longer than a stop lasts
            check_size(raw, self._controller.model.nv)
        except TrajectoryError as error:
            self._refuse(None, error)
        else:
            self._thread.submit(_Order(lambda: read_trajectory(raw), None))

    def _plan(self, order: _Order) -> _Plan:
        """Read and plan a trajectory; called by the thread."""
        controller = self._controller
        assert controller is not None
        message = order.read()
        lead = (LEAD + LEAD_PER_POINT * len(message.points)) * LEAD_FACTOR**order.attempt
        now = self._node.get_clock().now().nanoseconds * 1e-9
        planned = controller.plan_trajectory(
            message.names, message.points, now, message.stamp, lead, streams=order.goal is None
        )
        return _Plan(order, planned)

    def _plan_again(self, order: _Order, error: TrajectoryError) -> None:
        assert self._thread is not None
        if order.attempt + 1 < MOST_ATTEMPTS:
            self._thread.submit_again(order._replace(attempt=order.attempt + 1))
        else:
            late = TrajectoryError(f"{error}; {MOST_ATTEMPTS} attempts were too late")
            self._refuse(order, late)

    def _refuse(self, order: _Order | None, error: TrajectoryError) -> None:
        with self._lock:
            self._refused += 1
        self._log(f"trajectory refused: {error}")
        if order is not None and order.goal is not None:
            order.goal.refuse(error)

    def _log(self, text: str) -> None:
        """Log an error, unless :data:`MOST_LOGGED` errors were logged in the last seconds."""
        now = time.monotonic()
        with self._lock:
            while self._logged and now - self._logged[0] > LOG_PERIOD:
                self._logged.popleft()
            if len(self._logged) >= MOST_LOGGED:
                return
            self._logged.append(now)
            last = len(self._logged) == MOST_LOGGED
        more = f"; more within {LOG_PERIOD:g} s are counted on /diagnostics only" if last else ""
        self._node.get_logger().error(text + more)


def _supersede(order: _Order) -> None:
    """Report to the sender of a trajectory that a newer trajectory replaces it."""
    if order.goal is not None:
        order.goal.replace()


def _is_wanted(order: _Order) -> bool:
    """Return whether a trajectory is still to be followed: its goal, if any, has not ended."""
    return order.goal is None or order.goal.result is None
