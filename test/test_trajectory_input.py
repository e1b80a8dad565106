"""Trajectories that the controller's node receives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory

from rbd_control.errors import TrajectoryError
from rbd_control.nodes.trajectory_input import TrajectoryInput


def test_a_trajectory_is_refused_at_receipt_during_a_stop() -> None:
    """It would begin after ``~/resume`` if its planning took longer than the stop."""
    stops, refused = [True], list[str]()
    planned: list[Any] = []

    def require_free() -> None:
        if stops[0]:
            raise TrajectoryError("the arm stays in hold: resume first")

    given: Any = TrajectoryInput.__new__(TrajectoryInput)
    given.__dict__.update(
        _node=SimpleNamespace(is_active=True),
        _thread=SimpleNamespace(submit=planned.append),
        _controller=SimpleNamespace(
            modes=SimpleNamespace(require_free=require_free), model=SimpleNamespace(nv=7)
        ),
        _refuse=lambda _goal, error: refused.append(str(error)),
    )
    for stop in (True, False):
        stops[0] = stop
        given._receive(bytes(serialize_message(JointTrajectory())))
    assert refused == ["the arm stays in hold: resume first"]
    assert len(planned) == 1
