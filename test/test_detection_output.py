"""What the detector's node publishes of a judged sample."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.joint_states import JointSample
from rbd_control.nodes.detection_output import DetectionOutput, JudgedSample
from rbd_control.ros.messages import Stamp


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
