"""The output of torque: an old torque is replaced by zero."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.torque_output import TorqueOutput


def test_a_torque_is_replaced_by_zero_after_its_deadline() -> None:
    """The process may be stopped between the last look at the clock and the publication."""
    node: Any = SimpleNamespace()
    now, sent = [5.0], []

    def publish(torque: np.ndarray) -> bool:
        sent.append(torque.tolist())
        return True

    output = TorqueOutput(node, "torque", np.array([1, 0]), lambda: now[0])
    output._writer = SimpleNamespace(publish=publish)  # type: ignore[assignment]
    torque = np.array([3.0, -4.0])
    assert output.send(torque, 5.0)
    now[0] = 5.1
    assert output.send(torque, 5.0)
    assert output.send(torque)
    assert sent == [[-4.0, 3.0], [0.0, 0.0], [-4.0, 3.0]]
