"""The input of the present payload, beside a node that accepts every payload."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from geometry_msgs.msg import InertiaStamped

from rbd_control.nodes.payload_input import LONGEST_LINK, PayloadInput


class Node:
    """Takes the place of a node.

    Attributes:
        lines: lines in the log.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.diagnostics: list[Any] = []
        self.receive: Callable[[Any], None] = lambda _message: None

    def create_subscription(
        self, _kind: type, _topic: str, callback: Callable[[Any], None], _qos: object
    ) -> None:
        self.receive = callback

    def get_logger(self) -> SimpleNamespace:
        def write(text: str, **_: object) -> None:
            self.lines.append(text)

        return SimpleNamespace(info=write, error=write)

    def set_parameters_atomically(self, _parameters: object) -> SimpleNamespace:
        return SimpleNamespace(successful=True)


def test_a_long_name_of_a_link_is_shortened_in_the_log() -> None:
    """Without a mass any text is accepted as the link, however long."""
    node: Any = Node()
    PayloadInput(node, lambda: None)
    message = InertiaStamped()
    message.header.frame_id = "hand\n" + "x" * 100_000
    node.receive(message)
    (line,) = node.lines
    assert line.startswith("payload: 0 kg on hand\\nxxx")
    assert line.endswith("x…")
    assert len(line) == len("payload: 0 kg on ") + LONGEST_LINK
    message.header.frame_id = "hand"
    node.receive(message)
    assert node.lines[1] == "payload: 0 kg on hand"
