"""Advice for joint states that cannot be used."""

from __future__ import annotations

import sys

import pytest

import rbd_control
from rbd_control.joint_states import JointStateIntake
from rbd_control.joint_states.intake import WITHOUT_SHARED_MEMORY, advice
from rbd_control.startup import executables

PANDA = tuple(f"panda_joint{i}" for i in range(1, 8))
TOPIC = "/joint_states"


def test_a_publisher_that_sends_nothing() -> None:
    said = advice(TOPIC, 1, JointStateIntake(PANDA))
    assert "no message arrives on /joint_states, although it has a publisher" in said
    assert WITHOUT_SHARED_MEMORY in said
    assert len(said) <= 250


def test_other_names_with_the_nearest_match() -> None:
    intake = JointStateIntake(PANDA)
    names = [f"fer_joint{i}" for i in range(1, 8)]
    assert intake.accept(1.0, 1.0, names, [0.0] * 7, [0.0] * 7, [0.0] * 7) is None
    said = advice(TOPIC, 1, intake)
    assert "lack panda_joint1" in said
    assert "they have fer_joint1" in said
    assert "is 'fer_joint1' the same joint as 'panda_joint1'?" in said


def test_a_node_without_ros_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executables, "prepare", lambda: None)
    # The package that the node imports below takes this place; other tests need the former one.
    monkeypatch.setattr(rbd_control, "nodes", None, raising=False)
    monkeypatch.setattr(rbd_control, "ros", None, raising=False)
    for name in [*sys.modules]:
        if name.split(".")[0] in ("rclpy", "rcl_interfaces") or name.startswith(
            ("rbd_control.nodes", "rbd_control.ros")
        ):
            monkeypatch.delitem(sys.modules, name)
    for name in ("rclpy", "rcl_interfaces"):
        monkeypatch.setitem(sys.modules, name, None)
    assert executables.contact_detector() == 1
    said = capfd.readouterr().err
    assert said.startswith("contact_detector: contact_detector needs ROS 2")
    assert "pip install" in said
    assert "Traceback" not in said
