"""The output of torque: an old torque is replaced by zero."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.joint_states import JointSample
from rbd_control.nodes.command_output import COMMANDS, TorqueOutput
from rbd_control.nodes.passivity_controller import PassivityControllerNode


def test_a_torque_is_replaced_by_zero_after_its_deadline() -> None:
    """The process may be stopped between the last look at the clock and the publication."""
    node: Any = SimpleNamespace()
    now, sent = [5.0], []

    def publish(torque: np.ndarray) -> bool:
        sent.append(torque.tolist())
        return True

    output = TorqueOutput(node, np.array([1, 0]), lambda: now[0])
    output._writer = SimpleNamespace(publish=publish)  # type: ignore[assignment]
    torque = np.array([3.0, -4.0])
    assert output.send(torque, 5.0)
    now[0] = 5.1
    assert not output.send(torque, 5.0)
    assert output.send(torque)
    assert sent == [[-4.0, 3.0], [0.0, 0.0], [-4.0, 3.0]]


def test_the_output_waits_for_an_arm_that_subscribes_under_a_remapped_name() -> None:
    """The first torque would be lost if it were published before the arm is discovered."""
    matched, waits = [0, 0, 1], []
    publisher = SimpleNamespace(get_subscription_count=lambda: matched.pop(0))
    node: Any = SimpleNamespace(
        open=lambda _output: publisher,
        resolve_topic_name=lambda name: {COMMANDS.topic: "/remapped"}[name],
        count_subscribers=lambda name: int(name == "/remapped"),
    )
    output = TorqueOutput(node, np.arange(2))
    output.open(lambda: waits.append("wait"))
    assert not matched
    assert len(waits) == 2


@pytest.mark.parametrize("late", [0.2, 0.0])
def test_a_torque_that_is_not_sent_because_it_is_old_is_a_fault(late: float) -> None:
    """The control would continue from a torque that the arm never had."""
    seen: list[str] = []
    node: Any = PassivityControllerNode.__new__(PassivityControllerNode)
    command = SimpleNamespace(torque=np.ones(7))
    times = iter((0.0, late))
    node.__dict__.update(
        _controller=SimpleNamespace(
            update=lambda *_: command,
            modes=SimpleNamespace(fault=seen.append),
            not_sent=lambda _age: seen.append("not sent"),
            path=SimpleNamespace(sent=np.zeros(7), model_error=""),
        ),
        _watchdog=SimpleNamespace(beat=lambda: None, take_late=lambda: next(times), deadline=1.0),
        _trajectories=SimpleNamespace(accept=lambda: None),
        _output=SimpleNamespace(send=lambda _torque, _deadline: False, age=0.0),
        _unreported=None,
    )
    sample: Any = JointSample(0.0, np.zeros(7), np.zeros(7), None)
    node._on_sample(sample, None)
    assert seen == (["the node did not respond for 0.2 s"] if late else ["not sent"])
