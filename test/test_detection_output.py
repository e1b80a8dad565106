"""What the detector's node publishes of a judged sample."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rclpy.qos import DurabilityPolicy

from rbd_control.joint_states import JointSample
from rbd_control.nodes.detection_output import DetectionOutput, JudgedSample
from rbd_control.ros.messages import Stamp, verdict_qos


@pytest.mark.parametrize("is_completed", [False, True])
def test_no_tool_wrench_for_late_samples(is_completed: bool) -> None:
    """The residual of late samples is published, the wrench at the tool is not."""
    sent: list[str] = []
    output: Any = DetectionOutput.__new__(DetectionOutput)
    output.__dict__.update(
        _residual=SimpleNamespace(publish=lambda _stamp, effort: sent.append("residual")),
        _verdicts=SimpleNamespace(is_read=False),
        _stamped=SimpleNamespace(clear=lambda: None),
        _arrow=SimpleNamespace(clear=lambda: None),
        _tool=SimpleNamespace(is_read=True, publish=lambda *_: sent.append("wrench")),
        _detector=SimpleNamespace(tool_wrench=lambda: "the wrench"),
    )
    verdict: Any = SimpleNamespace(valid=True, dropped_code=0, is_quiet=True, residual=np.zeros(2))
    sample = JointSample(1.0, np.zeros(2), np.zeros(2), np.zeros(2))
    stored: Any = "the wrench" if is_completed else None
    for is_late in (False, True):
        judged = JudgedSample(
            replace(sample, is_late=is_late), Stamp(1, 0), verdict, is_completed, wrench=stored
        )
        output.publish(judged, verdict)
    assert sent == ["residual", "wrench", "residual"]


def test_the_last_verdict_is_kept_only_where_it_expires() -> None:
    """A middleware without lifespan would keep it for ever."""
    for middleware in ("rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp", "rmw_cyclonedds_cpp"):
        qos = verdict_qos(middleware)
        assert qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
        assert 0 < qos.lifespan.nanoseconds <= 100_000_000
    assert verdict_qos("rmw_zenoh_cpp").durability == DurabilityPolicy.VOLATILE
