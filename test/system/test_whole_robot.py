"""Nodes on a description with more than the arm they work with."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from robots import urdf_path
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp
from .controller_setting import ALONE, resume, wait_for_mode, wait_for_more
from .probe import LATCHED, Probe, Source, efforts

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
POSE = np.array([0.0, -0.5, 0.1, -2.0, 0.2, 1.6, 0.7])
OPEN = 0.03
"""Position of the fingers [m]."""


ERROR = 2
"""Level of a status in /diagnostics."""


def test_the_detector_takes_the_joints_whose_effort_is_reported(
    bring_up: BringUp, probe: Probe
) -> None:
    """The stock Panda with its hand as drivers publish it, and no parameter of the detector.

    The fingers are on the same topic, without effort.
    """
    description = urdf_path("panda")
    publisher = probe.node.create_publisher(String, "robot_description", LATCHED)
    publisher.publish(String(data=description.read_text(encoding="utf-8")))
    model = Model.from_urdf(description, locked={FINGERS[0]: OPEN})
    weight = gravity_torque(model, POSE)
    arm = probe.stream(Source(ARM, POSE, np.zeros(7), weight))
    probe.stream(Source(FINGERS, (OPEN, OPEN)), rate=20.0)
    random = np.random.default_rng(1)

    def disturb() -> None:
        # Never the same twice, as sensors are.
        arm.effort = weight + 1e-3 * random.normal(size=7)
        arm.velocity = 1e-4 * random.normal(size=7)

    probe.every(0.002, disturb)
    detector = bring_up.start("contact_detector")
    residual = probe.listen(JointState, "contact_detector/external_joint_torques")
    flag = probe.listen(Bool, "contact_detector/contact")
    probe.wait(lambda: len(residual) > 200 and flag, "no verdict")
    assert tuple(residual[-1].name) == ARM
    # The hand and the fingers are part of the last link: its weight is what is measured.
    assert np.abs(efforts(residual)).max() < 0.1
    assert not flag[-1].data
    said = detector.output
    assert f"held joints: panda_finger_joint1 at {OPEN:g} as joint states report" in said


def on_a_torso() -> str:
    """Return the description of the arm on a joint ``torso`` that tilts it."""
    text = arm7_urdf()
    root = re.findall(r'<link name="(\w+)"', text)[0]
    joint = f"""<link name="pelvis"/><joint name="torso" type="revolute"><parent link="pelvis"/>
      <child link="{root}"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="500" velocity="1"/></joint></robot>"""
    return text.replace("</robot>", joint)


def test_a_held_joint_that_carries_the_arm_moves(bring_up: BringUp, probe: Probe) -> None:
    """The model is wrong then: no verdict, and the safe torque.

    The torso reports its position in messages of its own. A second publisher contradicts these
    messages; this changes nothing.
    """
    space = "on_torso"
    names = [f"joint_{i}" for i in range(1, 8)]
    q = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.9, 0.0])
    arm = Source(names, q, np.zeros(7), gravity_torque(Model.from_urdf(arm7_urdf()), q))
    torso, stray = Source(("torso",), (0.0,)), Source(("torso",), (0.0,))
    for source in (arm, torso, stray):
        probe.stream(source, f"{space}/joint_states")
    random = np.random.default_rng(1)

    def disturb() -> None:
        # Joint states that repeat exactly give no verdict after a while.
        arm.position = q + 1e-6 * random.normal(size=7)

    probe.every(0.01, disturb)
    given: dict[str, Any] = {"robot_description": on_a_torso(), "joints": names, **ALONE}
    process = bring_up.start("contact_aware_controller", given, ("-r", f"__ns:=/{space}"))
    detector, controller = (
        f"{space}/{name}" for name in ("contact_detector", "passivity_controller")
    )
    wait_for_mode(probe, "hold", controller)
    torque = probe.listen(Float64MultiArray, f"{space}/effort_controller/commands")
    torso.position = (0.012,)
    fault = "held joint torso is at 0.012 instead of 0"
    report = probe.wait_for_report(controller, lambda r: fault in r.message, "no fault")
    assert (report.level, report.values["mode"]) == (ERROR, "safe")
    verdict = probe.wait_for_report(detector, lambda r: fault in r.message, "no fault")
    assert verdict.values["valid"] == "0"
    stray.on = False
    for said in ("no verdict: held joint", "safe torque: held joint"):
        assert process.output.count(said) == 1, process.output
    wait_for_more(probe, torque)
    assert not np.any(torque[-1].data)  # at rest there is nothing to brake
    refused = probe.call(Trigger, f"{controller}/resume")
    assert not refused.success
    assert "cannot resume: held joint torso is at 0.012" in refused.message
    torso.position = (0.0,)
    probe.wait_for_report(detector, lambda r: r.values["valid"] == "1", "no verdict again")
    resume(probe, controller)
