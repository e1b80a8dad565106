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
    intake.accept(2.0, 2.0, ["panda_joint"], [0.0], [0.0], [0.0])
    assert "the same joint" not in advice(TOPIC, 1, intake)


def test_another_topic_with_joint_states_is_named() -> None:
    said = advice(TOPIC, 0, JointStateIntake(PANDA), elsewhere=["/franka/joint_states"])
    assert "joint states come on /franka/joint_states" in said
    assert "start with joint_states:=/franka/joint_states" in said


@pytest.mark.parametrize("others", [("finger",), PANDA[:3]])
def test_a_part_whose_publisher_has_stopped(
    monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    """The arm stops beside its gripper, or half an arm; not "more than 20 ms apart"."""
    intake, now = JointStateIntake(PANDA), 0.0
    monkeypatch.setattr("rbd_control.joint_states.intake.monotonic", lambda: now)
    for k in range(500):
        now = 0.01 * k
        rest = PANDA if others == ("finger",) else PANDA[3:]
        for names in (others, rest) if now < 1.0 else (others,):
            zero = [0.0] * len(names)
            intake.accept(now, now, names, zero, zero, zero)
    said = advice(TOPIC, 2, intake)
    assert f"no message with {rest[0]}" in said
    assert "has arrived on /joint_states for 4.0 s" in said


def test_parts_that_others_complete_are_not_dropped() -> None:
    intake = JointStateIntake(PANDA)
    for k in range(100):
        for names in (PANDA[:3], PANDA[3:]):
            zero = [0.0] * len(names)
            intake.accept(0.01 * k, 0.01 * k, names, zero, zero, zero)
    assert intake.counts["accepted"] == 100
    assert intake.counts["missing joint"] == 0


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
