"""A goal that is cancelled before the arm follows it leaves older trajectories as they were."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode

from rbd_control.control import TrajectoryPoint
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.errors import TrajectoryError
from rbd_control.nodes.trajectory_input import MOST_LOGGED, TrajectoryInput
from rbd_control.ros.callback_errors import LOG_PERIOD
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.trajectory_wire import TrajectoryMessage


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
        node: Any = FakeNode()
        self.logged: list[str] = node.lines
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


def test_what_a_contact_discards_is_logged_later() -> None:
    """A contact discards it before the flag and the torque are published; a log line takes long."""
    bench, wait = Bench(), threading.Event()
    bench.submit("first", wait)
    bench.wait_for_planning()
    assert bench.trajectories.discard("contact")
    assert not bench.logged
    bench.trajectories.tell()
    assert bench.logged == ["the trajectory being planned is discarded: contact"]
    wait.set()
    bench.trajectories.stop()
    assert len(bench.logged) == 1


def test_two_threads_may_refuse_trajectories_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both removed the oldest of the logged times: one of them failed with an IndexError."""
    monkeypatch.setattr("rbd_control.nodes.trajectory_input.LOG_PERIOD", -1.0)
    bench, errors = Bench(), list[BaseException]()
    before = sys.getswitchinterval()

    def refuse() -> None:
        try:
            for _ in range(3000):
                bench.trajectories._refuse(None, TrajectoryError("bad"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    bench.trajectories.stop()
    assert not errors
    assert bench.trajectories._refused == 4 * 3000


def test_an_error_while_a_refusal_is_reported_does_not_end_the_planning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()

    def fail(_error: TrajectoryError) -> None:
        raise RuntimeError("the goal handle is gone")

    bad = TrajectoryGoal(1)
    monkeypatch.setattr(bad, "refuse", fail)

    def read() -> TrajectoryMessage:
        raise TrajectoryError("bad")

    bench.trajectories.submit(read, bad)
    end = time.monotonic() + 60.0
    while "the goal handle is gone" not in capsys.readouterr().err:
        assert time.monotonic() < end, "the refusal is not reported"
        time.sleep(0.001)
    bench.submit("second")
    assert bench.follow() == "second"
    bench.trajectories.stop()


def test_a_stream_of_bad_trajectories_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are logged, but not each of them."""
    node: Any = FakeNode()
    lines = node.lines
    now = [100.0]
    monkeypatch.setattr("rbd_control.nodes.trajectory_input.time.monotonic", lambda: now[0])
    trajectories = TrajectoryInput(node)
    for _ in range(1000):
        now[0] += 0.001
        trajectories._receive(b"no trajectory")
    assert len(lines) == MOST_LOGGED
    assert lines[0] == "trajectory refused: the controller is not active"
    assert "more within 5 s are counted on /diagnostics only" in lines[-1]
    status = Status()
    trajectories.report(status)
    assert status.values[0].value == "1000"
    now[0] += LOG_PERIOD
    trajectories._receive(b"no trajectory")
    assert len(lines) == MOST_LOGGED + 1
    assert "counted" not in lines[-1]
