"""The action ``~/follow_joint_trajectory``, with which MoveIt and others send trajectories.

The package ``control_msgs``, which contains the type of the action, is optional: without it the
controller receives trajectories on the topic ``~/joint_trajectory`` only.

No function of this module waits. An arriving goal is checked and passed to the planning thread. A
timer of the node calls :meth:`FollowJointTrajectoryServer.tick`, which sends feedback and results.

rclpy converts a goal to Python objects in the thread of the control loop before it calls any of
this code, 9 µs per point, in which no torque is sent. Therefore a goal has at most
:data:`MOST_GOAL_POINTS` points. A larger goal is rejected after its conversion, which lasts 1.3 s
for 100,000 points; if that exceeds the parameter ``timeout``, zero torque follows, and the
controller switches to the safe torque. The topic ``~/joint_trajectory`` has no such cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from action_msgs.msg import GoalStatus
from numpy.typing import NDArray
from rclpy._rclpy_pybind11 import RCLError
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.duration import Duration
from trajectory_msgs.msg import JointTrajectoryPoint

from rbd_control.control import PassivityController
from rbd_control.control.goals import (
    ABORTED,
    GoalResult,
    Goals,
    JointTolerance,
    TrajectoryGoal,
)
from rbd_control.control.motion import Place
from rbd_control.errors import TrajectoryError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.trajectory_input import TrajectoryInput
from rbd_control.ros.callback_errors import describe
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.trajectory_wire import TrajectoryMessage, trajectory_of_message

try:
    from control_msgs.action import FollowJointTrajectory
except ImportError:
    FollowJointTrajectory = None

Array = NDArray[np.float64]

ACTION = "~/follow_joint_trajectory"

MOST_GOALS = 10
"""Maximum number of goals that have no result yet; further goals are rejected."""

MOST_GOAL_POINTS = 500
"""Maximum number of points of a goal; their conversion by rclpy takes 5 ms."""


class GoalState(NamedTuple):
    """Measured and desired state of the arm, (nv,) each [rad or m, rad/s or m/s]."""

    q: Array
    v: Array
    q_d: Array
    v_d: Array


class FollowJointTrajectoryServer:
    """Serves ``control_msgs/action/FollowJointTrajectory`` where ``control_msgs`` is installed.

    Args:
        node: the node.
        trajectories: plans the trajectories, and passes them to the controller.
        controller: returns the controller of the configured node.
        state: returns measured and desired state of the arm; None while one of them is unknown.
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        trajectories: TrajectoryInput,
        controller: Callable[[], PassivityController],
        state: Callable[[], GoalState | None],
    ) -> None:
        self._node, self._trajectories = node, trajectories
        self._controller, self._state = controller, state
        self._goals = Goals()
        self._by_id: dict[bytes, TrajectoryGoal] = {}
        self._server: _Server | None = None
        if FollowJointTrajectory is None:
            node.get_logger().info(
                f"no action {node.resolve_topic_name(ACTION)}: control_msgs is not installed; "
                "trajectories are taken from the topic ~/joint_trajectory"
            )
            return
        self._server = _Server(
            node,
            FollowJointTrajectory,
            ACTION,
            execute_callback=_unused,
            goal_callback=self._judge,
            handle_accepted_callback=self._begin,
            cancel_callback=self._cancel,
        )
        self._server.refused = self._refused

    def tick(self) -> None:
        """Send the feedback and results of goals that are due. Call it periodically."""
        if self._goals:
            self._goals.tick(self._controller().modes.goal_motion, time.monotonic())

    def stop(self, why: str) -> None:
        """Abort all goals and send their results, with the reason ``why``.

        The action server remains.
        """
        self._goals.interrupt(why)

    def closed(self, handle: Any) -> None:
        """Forget a goal whose result is about to be sent, so that it cannot be cancelled any more.

        Args:
            handle: rclpy's handle of the goal.
        """
        self._by_id.pop(bytes(handle.goal_id.uuid), None)

    # Callbacks of the action server ----------------------------------------------------------

    def _judge(self, request: Any) -> GoalResponse:
        """Accept or reject a goal, by its size and by the state of the arm."""
        objection = self._objection(len(request.trajectory.points))
        if objection:
            self._node.get_logger().error(f"goal of {ACTION} rejected: {objection}")
        return GoalResponse.REJECT if objection else GoalResponse.ACCEPT

    def _objection(self, points: int) -> str:
        """Return why a goal with this many points is rejected, otherwise an empty text."""
        if not self._node.is_active:
            return "the controller is not active"
        if points > MOST_GOAL_POINTS:
            return (
                f"{points} points; the limit is {MOST_GOAL_POINTS}: send fewer points, or send the "
                "trajectory on ~/joint_trajectory"
            )
        if len(self._goals) >= MOST_GOALS:
            return f"{MOST_GOALS} goals have not been answered yet"
        try:
            self._controller().modes.require_free()
        except TrajectoryError as error:
            return str(error)
        return ""

    def _begin(self, handle: Any) -> None:
        """Pass the trajectory of a goal that was accepted to the planning thread."""
        self._node.errors.run(f"goal of {ACTION}", self._submit, handle)

    def _submit(self, handle: Any) -> None:
        request = handle.request
        goal = TrajectoryGoal(len(request.trajectory.points))
        self._by_id[bytes(handle.goal_id.uuid)] = goal
        self._goals.add(goal, _Sender(self, handle), time.monotonic())
        self.run_command(handle.execute)
        tolerances = self._controller().setup.now.tolerances

        def read() -> TrajectoryMessage:
            goal.tolerances = tolerances.of_goal(
                _tolerances(request.path_tolerance),
                _tolerances(request.goal_tolerance),
                _seconds(request.goal_time_tolerance),
            )
            return _trajectory(request)

        self._trajectories.submit(read, goal)

    def _cancel(self, handle: Any) -> CancelResponse:
        """Cancel a goal; a goal that has just ended keeps its result.

        No cancellation is rejected: if a request names several goals and one cancellation is
        rejected, rclpy skips the next goal.
        """
        self._node.errors.run(f"cancellation of a goal of {ACTION}", self._cancel_goal, handle)
        return CancelResponse.ACCEPT

    def _cancel_goal(self, handle: Any) -> None:
        goal = self._by_id.get(bytes(handle.goal_id.uuid))
        if goal is not None and goal.result is None:
            self._controller().modes.cancel_goal(goal)

    # Feedback and results for the senders of goals -------------------------------------------

    def send_feedback(self, handle: Any, goal: TrajectoryGoal, place: Place) -> None:
        """Publish feedback to the sender of a goal, unless the state of the arm is unknown.

        The feedback has the desired state, the measured state, and the error, which is the desired
        state less the measured state.

        Args:
            handle: rclpy's handle of the goal.
            goal: the goal.
            place: the present time on the trajectory.
        """
        state = self._state()
        if state is None:
            return
        feedback = FollowJointTrajectory.Feedback()
        feedback.header.stamp = self._node.get_clock().now().to_msg()
        feedback.joint_names = list(self._controller().model.joint_names)
        since = Duration(seconds=place.time).to_msg()
        for point, q, v in (
            (feedback.desired, state.q_d, state.v_d),
            (feedback.actual, state.q, state.v),
            (feedback.error, state.q_d - state.q, state.v_d - state.v),
        ):
            _fill(point, q, v)
            point.time_from_start = since
        if hasattr(feedback, "index"):  # not in the control_msgs of Jazzy
            feedback.index = goal.index(place)
        handle.publish_feedback(feedback)

    def send_result(self, handle: Any, result: GoalResult) -> None:
        """Send the result of a goal to its sender, and log it; an aborted goal as an error.

        A failure to publish the final status is counted or logged, and the result is sent all the
        same.

        Args:
            handle: rclpy's handle of the goal.
            result: the result.
        """
        assert self._server is not None
        message = FollowJointTrajectory.Result()
        message.error_code, message.error_string = int(result.code), result.text
        ends = {"succeeded": handle.succeed, "aborted": handle.abort, "canceled": handle.canceled}
        # The state counts although its publication may be refused.
        self.run_command(ends[result.status])
        self._server.answer(handle, message)
        text = f"goal {result.status}: {result.text.removesuffix(ABORTED)}"
        if result.status == "aborted":
            self._node.get_logger().error(text)
        else:
            self._node.get_logger().info(text)

    def run_command(self, what: Callable[[], None]) -> None:
        """Call a function of rclpy whose failure affects only the sender of a goal.

        An error of the middleware is counted, another exception is logged; none is raised.
        """
        try:
            what()
        except RCLError as error:
            self._refused(error)
        except Exception as error:
            self._node.get_logger().error(f"{ACTION} failed: {describe(error)}")

    def _refused(self, error: RCLError) -> None:
        """Count a message to the sender of a goal that the middleware refused."""
        self._node.refusals.add(self._node.resolve_topic_name(ACTION), error)


class _Sender:
    """Sends feedback and result of one goal to its sender."""

    def __init__(self, server: FollowJointTrajectoryServer, handle: Any) -> None:
        self._server, self._handle = server, handle

    def feedback(self, goal: TrajectoryGoal, place: Place) -> None:
        self._server.run_command(lambda: self._server.send_feedback(self._handle, goal, place))

    def finish(self, result: GoalResult) -> None:
        self._server.closed(self._handle)
        self._server.run_command(lambda: self._server.send_result(self._handle, result))


class _Server(ActionServer):
    """An action server that sends results by :meth:`answer` instead of a callback that waits.

    rclpy would run a callback for each goal for the whole duration of the goal.

    Attributes:
        refused: called with the error of the middleware if it refuses an answer to a sender.
    """

    refused: Callable[[RCLError], None]

    async def execute(self, taken_data: Any) -> None:
        """Answer requests; a refused answer is lost, and is no defect of the node.

        An accepted goal begins although its status could not be published, and a refused answer to
        one request does not keep the other requests from being processed.
        """
        for kind, data in taken_data.items():
            try:
                await super().execute({kind: data})
            except RCLError as error:
                self.refused(error)
                if kind == "goal":
                    self._begin(bytes(data[1].goal_id.uuid))
            if kind == "goal":
                self._end_unbegun(bytes(data[1].goal_id.uuid))

    def _begin(self, goal_id: bytes) -> None:
        """Begin a goal that was accepted and has not begun, because its status was refused."""
        handle = self._goal_handles.get(goal_id)
        if handle is not None and handle.status == GoalStatus.STATUS_ACCEPTED:
            self._handle_accepted_callback(handle)

    def _end_unbegun(self, goal_id: bytes) -> None:
        """Abort a goal that never begins, because its sender was not told that it is accepted.

        rclpy logs that the answer was refused, and leaves the goal as accepted.
        """
        handle = self._goal_handles.get(goal_id)
        if handle is None or handle.status != GoalStatus.STATUS_ACCEPTED:
            return
        for change in (handle.execute, handle.abort):
            try:
                change()
            except RCLError as error:  # the state has changed, but could not be published
                self.refused(error)
        self.answer(handle, self._action_type.Result())

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Do nothing: rclpy would call the execute callback, but the controller executes goals."""

    def answer(self, goal_handle: Any, result: Any) -> None:
        """Send the result of a goal that has reached a final state, before this method returns.

        rclpy leaves this to the executor, which no longer runs when a signal ends the node: the
        sender would wait for the result for ever.
        """
        self._result_futures[bytes(goal_handle.goal_id.uuid)]._set_executor(None)
        task = self._execute_goal(lambda _handle: result, goal_handle)
        try:
            task.send(None)
        except StopIteration:  # sent, because nothing in this coroutine of rclpy waits
            return
        task.close()
        super().notify_execute(goal_handle, lambda _handle: result)


def _unused(_handle: Any) -> None:
    """Serve as the execute callback that rclpy requires; it is never called."""


def _tolerances(messages: Sequence[Any]) -> list[JointTolerance]:
    return [JointTolerance(each.name, each.position, each.velocity) for each in messages]


def _trajectory(request: Any) -> TrajectoryMessage:
    """Return the trajectory of a goal as plain values.

    Raises:
        TrajectoryError: for fields that apply to arms with other kinds of joints only.
    """
    if request.multi_dof_trajectory.points or request.multi_dof_trajectory.joint_names:
        raise TrajectoryError("the goal has a multi_dof_trajectory; the arm has no such joints")
    if request.component_path_tolerance or request.component_goal_tolerance:
        raise TrajectoryError("the goal has component tolerances; the arm has no such joints")
    return trajectory_of_message(request.trajectory)


def _seconds(message: Any) -> float:
    """Return a time or duration message as seconds."""
    return float(message.sec + 1e-9 * message.nanosec)


def _fill(point: JointTrajectoryPoint, q: Array, v: Array) -> None:
    point.positions, point.velocities = q.tolist(), v.tolist()
