"""A goal that is cancelled before the arm follows it leaves older trajectories as they were."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.control import TrajectoryPoint
from rbd_control.control.trajectory_goal import TrajectoryGoal
from rbd_control.nodes.trajectory_input import TrajectoryInput
from rbd_control.nodes.trajectory_wire import TrajectoryMessage


class Controller:
    """Takes the place of the controller; a plan is the name of its only joint."""

    def __init__(self) -> None:
        self.planned: list[str] = []
        self.accepted: list[str] = []

    def plan_trajectory(self, names: tuple[str, ...], *_: Any, **__: Any) -> str:
        self.planned.append(names[0])
        return names[0]

    def accept(self, planned: str, _goal: TrajectoryGoal | None) -> None:
        self.accepted.append(planned)


class Bench:
    """The input of trajectories of a node."""

    def __init__(self) -> None:
        self.controller = Controller()
        clock = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0))
        node: Any = SimpleNamespace(
            create_subscription=lambda *_, **__: None,
            get_clock=lambda: clock,
            get_logger=lambda: SimpleNamespace(error=lambda _text: None),
        )
        self.trajectories = TrajectoryInput(node)
        controller: Any = self.controller
        self.trajectories.start(controller)
        self.thread: Any = self.trajectories._thread

    def submit(self, name: str, wait: threading.Event | None = None) -> TrajectoryGoal:
        """Submit a goal; the planning thread waits for the event before it reads the goal."""
        goal = TrajectoryGoal(1)

        def read() -> TrajectoryMessage:
            if wait is not None:
                assert wait.wait(60.0)
            return TrajectoryMessage(0.0, (name,), [TrajectoryPoint((0.0,), time_from_start=1.0)])

        self.trajectories.submit(read, goal)
        return goal

    def wait_for_planning(self) -> None:
        """Wait until the planning thread has begun with a trajectory."""
        end = time.monotonic() + 60.0
        while self.thread._current is None:
            assert time.monotonic() < end, "no trajectory is planned"
            time.sleep(0.001)

    def follow(self) -> str:
        """Return the next trajectory that the controller follows."""
        end = time.monotonic() + 60.0
        while not self.controller.accepted:
            assert time.monotonic() < end, "no trajectory is followed"
            self.trajectories.accept()
            time.sleep(0.001)
        return self.controller.accepted.pop()


@pytest.mark.parametrize("cancelled", ["while it waits", "while it is planned"])
def test_an_older_trajectory_is_followed_if_the_newer_one_is_cancelled(cancelled: str) -> None:
    """It was dropped for the newer trajectory, which was then dropped as well."""
    bench, busy = Bench(), threading.Event()
    try:
        if cancelled == "while it waits":
            blocking = bench.submit("blocking", busy)
            bench.wait_for_planning()
            older, newer = bench.submit("older"), bench.submit("newer")
            blocking.cancel()
        else:
            newer = bench.submit("newer", busy)
            bench.wait_for_planning()
            # Older, although it comes later: a plan that was too late is submitted again.
            older = TrajectoryGoal(1)
            message = TrajectoryMessage(0.0, ("older",), [])
            order = bench.thread._current._replace(goal=older, read=lambda: message)
            bench.thread.submit_again(order)
        newer.cancel()
        busy.set()
        assert bench.follow() == "older"
        assert older.result is None
        assert newer.result is not None
        assert newer.result.status == "canceled"
        if cancelled == "while it waits":
            assert "newer" not in bench.controller.planned
    finally:
        busy.set()
        bench.trajectories.stop()
