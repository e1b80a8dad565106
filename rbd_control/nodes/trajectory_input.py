"""Input of trajectories: checked for size, planned by a thread, then followed."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import Generic, NamedTuple, TypeVar

from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from rbd_control.control import PassivityController, PlannedTrajectory
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.control.planner import LEAD, LEAD_PER_POINT
from rbd_control.errors import StalePlanError, TrajectoryError
from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.callback_errors import LOG_PERIOD, describe
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.trajectory_wire import TrajectoryMessage, check_size, read_trajectory

Order = TypeVar("Order")
Plan = TypeVar("Plan")

MOST_WAITING = 10
"""Maximum number of trajectories that wait for planning; above it the oldest is superseded."""


class PlanningThread(Generic[Order, Plan]):
    """Plans trajectories in the background.

    The newest trajectory is planned first. If it is valid, it supersedes the waiting older
    trajectories; if not, it is refused and the next older trajectory is planned. The result is the
    same as planning in order. When the arm is stopped, :meth:`discard` drops the trajectories that
    were sent before the stop: those that wait, are being planned, or are not taken yet.

    ``Order`` is the type of a trajectory to plan, and ``Plan`` the type of the result.

    Args:
        plan: plans a trajectory, or refuses it with a :class:`TrajectoryError`. Called by the
            thread; any other exception also counts as a refusal.
        refuse: called by the thread with a trajectory that is refused, and the reason.
        supersede: called, by any thread, with a trajectory that is never followed because a newer
            trajectory replaces it.
        is_wanted: called by the thread; returns whether a trajectory is still to be followed. A
            trajectory that was cancelled is dropped and supersedes no other.
    """

    def __init__(
        self,
        plan: Callable[[Order], Plan],
        refuse: Callable[[Order, TrajectoryError], None],
        supersede: Callable[[Order], None] = lambda _order: None,
        is_wanted: Callable[[Order], bool] = lambda _order: True,
    ) -> None:
        self._plan, self._refuse, self._supersede = plan, refuse, supersede
        self._is_wanted = is_wanted
        self._changed = Condition()
        self._waiting: deque[tuple[int, Order]] = deque()
        self._submitted = self._era = 0
        self._taken = self._newest = 0
        """Numbers of the last plan that was taken, and of the newest that was finished."""
        self._planned: tuple[int, Order, Plan] | None = None
        self._current: Order | None = None
        self._is_ending = False
        self._thread = Thread(target=self._run, name="planning", daemon=True)
        self._thread.start()

    def submit(self, order: Order) -> None:
        """Plan this trajectory before all waiting trajectories; return at once.

        If more than :data:`MOST_WAITING` trajectories wait, the oldest is superseded.
        """
        with self._changed:
            self._submitted += 1
            self._waiting.append((self._submitted, order))
            if len(self._waiting) > MOST_WAITING:
                self._supersede(self._waiting.popleft()[1])
            self._changed.notify()

    def submit_again(self, order: Order) -> None:
        """Plan the trajectory of the last :meth:`take` again, for example because it was too late.

        If a newer trajectory was planned meanwhile, this trajectory is superseded instead.
        """
        with self._changed:
            if self._newest > self._taken:
                self._supersede(order)
                return
            self._waiting.appendleft((self._taken, order))
            self._changed.notify()

    def take(self) -> Plan | None:
        """Take the newest finished plan, or None if no plan was finished since the last call."""
        if self._planned is None:  # nearly always, and without the lock
            return None
        with self._changed:
            planned, self._planned = self._planned, None
            if planned is not None:  # it is None if it was discarded meanwhile
                self._taken = planned[0]
            return None if planned is None else planned[2]

    def discard(self) -> list[Order]:
        """Discard and return the trajectories that wait, are being planned or are not taken yet."""
        with self._changed:
            found = [order for _, order in self._waiting]
            if self._planned is not None:
                found.append(self._planned[1])
            if self._current is not None:
                found.append(self._current)
                self._current = None
            self._waiting.clear()
            self._planned = None
            self._era += 1
            return found

    def end(self) -> None:
        """Discard all trajectories and end the thread; wait for it for at most 1 s."""
        self.discard()
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._current = None
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                if self._is_ending:
                    return
                (number, order), era = self._waiting.pop(), self._era
                if not self._is_wanted(order):
                    continue
                self._current = order
            planned: Plan | TrajectoryError
            try:
                planned = self._plan(order)
            except TrajectoryError as error:
                planned = error
            except Exception as error:  # from numbers that passed all checks of the input
                planned = TrajectoryError(f"planning failed: {describe(error)}")
            with self._changed:
                self._current = None
                # discard() has returned this trajectory, or it was cancelled meanwhile.
                if era != self._era or not self._is_wanted(order):
                    continue
                if not isinstance(planned, TrajectoryError):
                    self._keep(number, order, planned)
                    continue
            try:
                self._refuse(order, planned)
            except Exception:
                # The thread must not end: no later trajectory would be planned, without a message.
                with suppress(OSError):  # the output is not read
                    traceback.print_exc()

    def _keep(self, number: int, order: Order, planned: Plan) -> None:
        """Store a finished plan unless a newer plan exists; supersede the older trajectories."""
        if number < self._newest:
            self._supersede(order)
            return
        self._newest = number
        if self._planned is not None:
            self._supersede(self._planned[1])
        self._planned = (number, order, planned)
        while self._waiting and self._waiting[0][0] < number:
            self._supersede(self._waiting.popleft()[1])


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
