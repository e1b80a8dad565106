"""What the controller's node logs of its commands."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rbd_control.control import Command
from rbd_control.control.torque_path import WEAKENED
from rbd_control.nodes.command_output import CommandReport


def test_a_brake_that_is_weakened_is_logged_once() -> None:
    node = Mock()
    report, zero = CommandReport(node, lambda: None), np.zeros(2)
    for reason in ("late", "late", f"late; {WEAKENED}", f"late; {WEAKENED}; zero torque now"):
        report.note(Command(zero, zero, zero, "safe", False, False, "none", reason))
    node.get_logger().error.assert_called_once()
    node.get_logger().warning.assert_called_once_with(WEAKENED)
