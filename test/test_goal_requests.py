"""Requests to the action server, answered by the code of rclpy: none loses or skips a goal.

The C library behind rclpy is replaced, because the tests need refusals of the middleware.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from action_msgs.msg import GoalInfo, GoalStatus
from action_msgs.srv import CancelGoal
from rclpy._rclpy_pybind11 import RCLError
from rclpy.action import GoalResponse, server

from rbd_control.control.goals import TrajectoryGoal
from rbd_control.nodes.follow_joint_trajectory import (
    MOST_GOAL_POINTS,
    FollowJointTrajectoryServer,
    _Server,
)


class Status:
    """Takes the place of the C object with the state of a goal."""

    def __init__(self, _server: Any, _info: GoalInfo) -> None:
        self.status = GoalStatus.STATUS_ACCEPTED

    def get_status(self) -> int:
        return self.status

    def is_active(self) -> bool:
        return True

    def update_goal_state(self, event: Any) -> None:
        new = {
            server.GoalEvent.EXECUTE: GoalStatus.STATUS_EXECUTING,
            server.GoalEvent.CANCEL_GOAL: GoalStatus.STATUS_CANCELING,
            server.GoalEvent.ABORT: GoalStatus.STATUS_ABORTED,
        }
        self.status = new[event]


class Wire:
    """Takes the place of the C object of the action server.

    Attributes:
        refusals: number of next publications of the status that it refuses.
        loses_answers: whether it refuses the answers to goals.
        cancelled: the goals that the last answer to a cancel request names.
        results: the results that were sent.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self.loses_answers = False
        self.cancelled: list[bytes] = []
        self.results: list[Any] = []

    def goal_exists(self, _info: GoalInfo) -> bool:
        return False

    def publish_status(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RCLError("refused")

    def send_goal_response(self, _header: Any, _response: Any) -> None:
        if self.loses_answers:
            raise RCLError("refused")

    def send_result_response(self, _header: Any, response: Any) -> None:
        self.results.append(response)

    def process_cancel_request(self, request: CancelGoal.Request, _kind: type) -> Any:
        return CancelGoal.Response(goals_canceling=[request.goal_info, *OTHERS])

    def send_cancel_response(self, _header: Any, response: CancelGoal.Response) -> None:
        self.cancelled = [bytes(info.goal_id.uuid) for info in response.goals_canceling]


def info(number: int) -> GoalInfo:
    """Return the identifier of a goal: 16 times the number."""
    made = GoalInfo()
    made.goal_id.uuid = [number] * 16
    return made


OTHERS = [info(2), info(3)]


class Bench:
    """An action server on a wire that may refuse messages.

    Attributes:
        begun: identifiers of the goals that have begun.
        refused: errors of the middleware that were counted.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            server, "_rclpy", SimpleNamespace(ActionGoalHandle=Status, GoalEvent=server.GoalEvent)
        )
        self.begun: list[bytes] = []
        self.refused: list[RCLError] = []
        self.wire = Wire()
        self.server: Any = _Server.__new__(_Server)
        now = SimpleNamespace(to_msg=lambda: info(0).stamp)
        kind = SimpleNamespace(
            SendGoalService=SimpleNamespace(Response=SimpleNamespace),
            GetResultService=SimpleNamespace(Response=SimpleNamespace),
            CancelGoalService=CancelGoal,
        )
        self.server.__dict__.update(
            _lock=threading.Lock(),
            _logger=logging.getLogger("test"),
            _handle=self.wire,
            _node=SimpleNamespace(get_clock=lambda: SimpleNamespace(now=lambda: now)),
            _action_type=SimpleNamespace(Impl=kind),
            _goal_handles={},
            _result_futures={},
            _goal_callback=lambda _goal: GoalResponse.ACCEPT,
            _handle_accepted_callback=self._begin,
            add_future=lambda _future: None,
            refused=self.refused.append,
        )

    def _begin(self, handle: Any) -> None:
        self.begun.append(bytes(handle.goal_id.uuid))
        handle._goal_handle.update_goal_state(server.GoalEvent.EXECUTE)

    def execute(self, **requests: Any) -> None:
        """Process requests that have arrived together."""
        taken = {kind: (None, request) for kind, request in requests.items()}
        asyncio.run(self.server.execute(taken))


def goal(number: int) -> SimpleNamespace:
    return SimpleNamespace(goal_id=info(number).goal_id, goal=None)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_an_accepted_goal_begins_although_its_status_is_refused(bench: Bench) -> None:
    """Its sender had the answer that it is accepted, and never a result."""
    bench.wire.refusals = 1
    bench.execute(goal=goal(1))
    assert bench.begun == [bytes([1] * 16)]
    assert len(bench.refused) == 1


def test_a_goal_whose_acceptance_was_not_sent_is_aborted(bench: Bench) -> None:
    """rclpy left it as accepted for ever; its sender was not told, so it must not begin."""
    bench.wire.loses_answers = True
    answered: list[Any] = []
    bench.server.answer = lambda handle, _result: answered.append(handle)
    bench.server._action_type.Result = SimpleNamespace
    bench.execute(goal=goal(1))
    assert not bench.begun
    assert [handle.status for handle in answered] == [GoalStatus.STATUS_ABORTED]


def test_a_refused_status_loses_no_request_that_arrived_with_the_goal(bench: Bench) -> None:
    for number in (2, 3):
        bench.execute(goal=goal(number))
    bench.server._cancel_callback = lambda _handle: server.CancelResponse.ACCEPT
    bench.wire.refusals = 1
    bench.execute(goal=goal(1), cancel=CancelGoal.Request(goal_info=info(1)))
    assert bench.wire.cancelled == [bytes([number] * 16) for number in (1, 2, 3)]


def test_all_goals_of_a_request_are_cancelled(bench: Bench) -> None:
    """The goal after one that had just ended was skipped, and the arm went on."""
    goals = {bytes([number] * 16): TrajectoryGoal(1) for number in (1, 2, 3)}
    for number in (1, 2, 3):
        bench.execute(goal=goal(number))
    ended = goals[bytes([1] * 16)]
    ended.end(0, "goal reached")  # type: ignore[arg-type]
    action: Any = FollowJointTrajectoryServer.__new__(FollowJointTrajectoryServer)
    action._by_id = goals
    action._controller = lambda: SimpleNamespace(
        modes=SimpleNamespace(cancel_goal=TrajectoryGoal.cancel)
    )
    errors = SimpleNamespace(run=lambda _name, callback, *arguments: callback(*arguments))
    action._node = SimpleNamespace(errors=errors)
    bench.server._cancel_callback = action._cancel
    bench.execute(cancel=CancelGoal.Request(goal_info=info(1)))
    assert ended.result is not None
    assert ended.result.status == "succeeded"  # it keeps its result
    for number in (2, 3):
        result = goals[bytes([number] * 16)].result
        assert result is not None
        assert result.status == "canceled"


def test_a_goal_with_too_many_points_is_rejected() -> None:
    """By their number, whatever the state of the arm."""
    action: Any = FollowJointTrajectoryServer.__new__(FollowJointTrajectoryServer)
    said: list[str] = []
    logger = SimpleNamespace(error=said.append)
    action._node = SimpleNamespace(is_active=True, get_logger=lambda: logger)
    action._goals = []
    action._controller = lambda: SimpleNamespace(modes=SimpleNamespace(require_free=lambda: None))

    def answer(points: int) -> GoalResponse:
        trajectory = SimpleNamespace(points=[None] * points)
        response: GoalResponse = action._judge(SimpleNamespace(trajectory=trajectory))
        return response

    assert answer(MOST_GOAL_POINTS) == GoalResponse.ACCEPT
    assert not said
    assert answer(MOST_GOAL_POINTS + 1) == GoalResponse.REJECT
    assert f"{MOST_GOAL_POINTS + 1} points; the limit is {MOST_GOAL_POINTS}" in said[0]


def test_the_result_of_a_goal_is_sent_when_a_signal_has_ended_the_executor(
    bench: Bench,
) -> None:
    """It was left to the executor, and the sender waited for it for ever."""
    bench.server._node.executor = None
    bench.execute(goal=goal(1))
    identifier = bytes([1] * 16)
    bench.server._result_futures[identifier]._set_executor(None)
    bench.execute(result=goal(1))
    assert not bench.wire.results
    handle = bench.server._goal_handles[identifier]
    handle._goal_handle.update_goal_state(server.GoalEvent.ABORT)
    bench.server.answer(handle, "the reason")
    aborted = SimpleNamespace(status=GoalStatus.STATUS_ABORTED, result="the reason")
    assert bench.wire.results == [aborted]
