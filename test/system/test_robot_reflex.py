"""Detector and controller survive the reflex of a robot and go on without a restart.

A driver that is stopped by the robot's own collision reflex either publishes no joint states any
more, or repeats the last sample under stamps that advance. Both are played here.
"""

from __future__ import annotations

import numpy as np
import pytest
from std_msgs.msg import Bool, Float64MultiArray

from rbd_control.dynamics import gravity_torque

from .bringup import BringUp
from .controller_setting import (
    ALONE,
    COMMANDS,
    MODEL,
    POSTURE,
    resume,
    trajectory,
    wait_for_mode,
    wait_for_more,
)
from .probe import LATCHED, Probe, Source

CONTROLLER, DETECTOR = "passivity_controller", "contact_detector"
PARAMETERS = {
    # As config/franka.yaml has it: the robot carries its own weight.
    CONTROLLER: {
        "urdf": "arm7",
        "gravity_compensated": True,
        "safe_torque": "zero",
        **ALONE,
        "repeated_time": 1.0,
        "contact_reaction": "none",
    },
    DETECTOR: {"urdf": "arm7", "contact_threshold": 2.0, "repeated_time_at_rest": 3600.0},
}
MOVED = 0.1
"""Motion of each joint by hand before the robot recovers [rad]."""


def effort(posture: np.ndarray) -> np.ndarray:
    """Return measured efforts at rest, which are never exactly zero, unlike gravity at joint_1."""
    return gravity_torque(MODEL, posture) + 0.1


@pytest.fixture(scope="module")
def source(bring_up: BringUp, probe: Probe) -> Source:
    for node, parameters in PARAMETERS.items():
        bring_up.start(node, parameters)
    still = np.zeros(MODEL.nv)
    return probe.stream(Source(MODEL.joint_names, POSTURE, still, effort(POSTURE)))


@pytest.mark.parametrize("reflex", ["silence", "repetition"])
def test_after_a_reflex_nothing_moves_before_resume(
    reflex: str, probe: Probe, source: Source
) -> None:
    commands = probe.listen(Float64MultiArray, COMMANDS)
    verdicts = probe.listen(Bool, f"{DETECTOR}/contact", LATCHED)
    probe.wait(lambda: verdicts, "no verdict")
    wait_for_mode(probe, "hold")
    # The arm moves: otherwise repeated samples would be those of an arm at rest.
    before = len(commands)
    if reflex == "silence":
        source.on = False
    else:
        source.velocity = np.full(MODEL.nv, 0.2)
    wait_for_mode(probe, "safe")
    probe.wait(lambda: not np.any(commands[-1].data), "the safe torque is not zero")
    assert len(commands) > before
    # The driver is back. Nobody has said that the arm may move.
    posture = np.asarray(source.position) + MOVED
    source.position, source.velocity = posture, np.zeros(MODEL.nv)
    source.effort, source.on = effort(posture), True
    heard = len(verdicts)
    probe.wait(lambda: len(verdicts) > heard + 10, "the verdict does not come back")
    first = len(commands)
    probe.send(f"{CONTROLLER}/joint_trajectory", trajectory(0.1))
    assert probe.report(CONTROLLER).values["mode"] == "safe"
    assert not any(np.any(message.data) for message in commands[first:])
    # Resumed, it holds where the arm stands now.
    first = len(commands)
    resume(probe)
    wait_for_mode(probe, "hold")
    wait_for_more(probe, commands)
    largest = max(float(np.abs(message.data).max()) for message in commands[first:])
    assert largest < 0.5, "it pulls the arm back to where it stood"
