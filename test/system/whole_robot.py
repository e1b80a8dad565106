"""The stock Panda with its hand as drivers publish it: fingers on the same topic, no effort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from rbd_control.dynamics import Model, gravity_torque

from .probe import LATCHED, Probe, Source, efforts

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
POSE = np.array([0.0, -0.5, 0.1, -2.0, 0.2, 1.6, 0.7])
OPEN = 0.03
"""Position of the fingers [m]."""


def weight(description: Path) -> np.ndarray:
    """Return the torque that holds arm, hand and fingers at rest, (7,) [N·m]."""
    return gravity_torque(Model.from_urdf(description, locked={FINGERS[0]: OPEN}), POSE)


def publish_robot(probe: Probe, description: Path) -> Source:
    """Publish the unchanged description and the joint states of arm and gripper; return the arm."""
    publisher = probe.node.create_publisher(String, "robot_description", LATCHED)
    publisher.publish(String(data=description.read_text(encoding="utf-8")))
    torque = weight(description)
    source = Source(ARM, POSE, np.zeros(7), torque)
    random = np.random.default_rng(1)
    probe.stream(source)
    probe.stream(Source(FINGERS, (OPEN, OPEN)), rate=20.0)

    def disturb() -> None:
        # Never the same twice, as sensors are.
        source.effort = torque + 1e-3 * random.normal(size=7)
        source.velocity = 1e-4 * random.normal(size=7)

    probe.every(0.002, disturb)
    return source


def verdict_without_contact(probe: Probe) -> None:
    """The detector observes the arm's joints, and its model carries hand and fingers."""
    residual = probe.listen(JointState, "contact_detector/external_joint_torques")
    flag = probe.listen(Bool, "contact_detector/contact")
    probe.wait(lambda: residual and flag, "no verdict")
    assert tuple(residual[-1].name) == ARM
    # The hand and the fingers are part of the last link: its weight is what is measured.
    probe.wait(lambda: len(residual) > 200, "the residual ended")
    assert np.abs(efforts(residual)).max() < 0.1
    assert not flag[-1].data
