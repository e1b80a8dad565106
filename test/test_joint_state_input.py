"""Joint states that arrive while the node takes its subscription down."""

from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.joint_state_input import JointStateInput


def test_a_message_announced_before_the_end_of_the_subscription_is_not_taken() -> None:
    """The executor may call back after the node has destroyed the subscription."""
    node = MagicMock()
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    inputs = JointStateInput(node, ["joint_1"], lambda: 1.0, lambda sample, stamp: None)
    callback = node.create_subscription.call_args.args[2]
    handle = node.create_subscription.return_value.handle
    handle.take_message.return_value = None
    callback(b"")
    assert handle.take_message.called
    handle.take_message.reset_mock()
    inputs.destroy()
    callback(b"")
    assert not handle.take_message.called
