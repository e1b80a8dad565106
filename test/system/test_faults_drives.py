"""Drives that are wired wrong, on a running controller.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rbd_control.ros.messages import to_seconds, to_stamp
from rbd_control.simulation import SimulatedArm, SimulationParameters

from .bringup import STANDSTILL, BringUp
from .controller_scenarios import COMMANDS, MODEL, NODE, POSTURE
from .fault_setting import wait_for_mode
from .probe import Probe, Source

UNANSWERED = 0.05
"""Time without a command after which the arm moves on under the last one [s]."""


class WiredArm:
    """A simulated arm in whose motors the commands arrive changed; it moves by 1 ms for each.

    Args:
        probe: publishes the joint states.
        wiring: returns the torque of the motors for a command, (7,) [N·m].
    """

    def __init__(self, probe: Probe, wiring: Callable[[np.ndarray], np.ndarray]) -> None:
        self._wiring = wiring
        self._arm = SimulatedArm(MODEL, SimulationParameters(initial_position=tuple(POSTURE)))
        self._begin = to_seconds(probe.node.get_clock().now().to_msg())
        self._publisher = probe.node.create_publisher(JointState, "joint_states", 50)
        self._source = Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv))
        self._torque: np.ndarray | None = None
        self._answered = False
        self._has_ended = False
        probe.node.create_subscription(Float64MultiArray, COMMANDS, self._on_command, 50)
        self._repetition = probe.every(UNANSWERED, self._wait)
        self._probe = probe

    def end(self) -> None:
        """Send nothing any more."""
        self._probe.end_repetition(self._repetition)
        self._has_ended = True

    def _on_command(self, command: Float64MultiArray) -> None:
        if self._has_ended:
            return
        self._torque, self._answered = self._wiring(np.array(command.data)), True
        self._move()

    def _wait(self) -> None:
        if not self._answered:
            self._move()
        self._answered = False

    def _move(self) -> None:
        self._arm.step(self._torque)
        sample = self._arm.reading()
        assert sample is not None
        assert sample.v is not None
        assert sample.tau is not None
        source = self._source
        source.position, source.velocity, source.effort = sample.q, sample.v, sample.tau
        stamp: Time = to_stamp(self._begin + sample.stamp)
        self._publisher.publish(source.message(stamp))


def reversed_joint_2(torque: np.ndarray) -> np.ndarray:
    torque[1] = -torque[1]
    return torque


def swapped_joints_2_and_4(torque: np.ndarray) -> np.ndarray:
    torque[[1, 3]] = torque[[3, 1]]
    return torque


@pytest.mark.parametrize(
    ("wiring", "words"),
    [
        (reversed_joint_2, "joint_2 accelerates against its torque"),
        (swapped_joints_2_and_4, "the motors of joint_2 and joint_4 are swapped"),
    ],
    ids=["reversed", "swapped"],
)
def test_drives_that_act_against_their_commands_get_no_torque(
    bring_up: BringUp, probe: Probe, wiring: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    """[133, 134] The reason names the joints, whose torque is then zero."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    parameters = {"urdf": "arm7", "timeout": STANDSTILL, "discovery_time": 0.0}
    process = bring_up.start(NODE, parameters)
    arm = WiredArm(probe, wiring)
    report = wait_for_mode(probe, "safe")
    assert words in report.message
    seen = len(commands)
    probe.wait(lambda: len(commands) > seen, "sends no torque")
    wrong = np.flatnonzero(wiring(np.arange(1.0, 8.0)) != np.arange(1.0, 8.0))
    assert not np.array(commands[-1].data)[wrong].any()
    arm.end()
    process.signal(signal.SIGINT)
    process.wait()
    probe.reports.pop(NODE)
