"""Refused trajectories are logged, but not each of a stream of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.trajectory_input import MOST_LOGGED, TrajectoryInput
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.guard import LOG_PERIOD


def test_a_stream_of_bad_trajectories_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    node: Any = SimpleNamespace(
        create_subscription=lambda *_, **__: None,
        get_logger=lambda: SimpleNamespace(error=lines.append),
    )
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
