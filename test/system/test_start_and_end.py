"""Start of the nodes, and their messages if they cannot start; player and arm alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lifecycle_msgs.srv import GetState
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from rbd_control.nodes.contact_aware_controller import InProcessDetector
from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.simulation import arm7_urdf

from . import controller_setting, detector_setting
from .bringup import PATIENCE, STANDSTILL, BringUp, command
from .probe import LATCHED, Heard, Probe

UNPHYSICAL = arm7_urdf().replace('<mass value="4"/>', '<mass value="-4"/>', 1)

XACRO = "http://www.ros.org/wiki/xacro"

BAD_STARTS: dict[str, tuple[str, dict[str, Any], str]] = {
    # 28, 32: descriptions
    "no such file": ("contact_detector", {"urdf": "/no/such.urdf"}, "/no/such.urdf"),
    "xacro": (
        "passivity_controller",
        {"robot_description": f'<robot xmlns:xacro="{XACRO}"><xacro:arm/></robot>'},
        "xacro",
    ),
    "mass": ("simulated_arm", {"robot_description": UNPHYSICAL}, "link_1"),
    # 37, 78: values
    "far beyond": (
        "contact_detector",
        {"urdf": "arm7", "friction_f2": 1e308},
        "friction_f2[0] is 1e+308 s/rad or s/m; it must be at least",
    ),
    "length": ("contact_detector", {"urdf": "arm7", "contact_threshold": [1.0, 2.0]}, "7"),
    "type": ("passivity_controller", {"urdf": "arm7", "bandwidth": "fast"}, "bandwidth"),
    "name of an action": ("contact_guard", {"actions": ["to and fro"]}, "to and fro"),
    "no recording": ("joint_state_player", {"recording": "/no/such.mcap"}, "/no/such.mcap"),
    # 92: in old files payload_mass is the largest mass to learn; now it means carried mass
    "a file of before": (
        "passivity_controller",
        {"urdf": "arm7", "payload_mass": 3.0, "payload_reach": 0.2},
        "it is now largest_payload_reach",
    ),
}
"""What is wrong, by row of ``docs/faults.md``, and what the one line must name."""


def test_a_bad_start_ends_with_a_line_that_names_it(bring_up: BringUp) -> None:
    """Without a traceback."""
    # A few at a time: each is a Python that imports numba.
    cases = list(BAD_STARTS.items())
    for k in range(0, len(cases), 3):
        started = [
            (what, bring_up.start(node, parameters), named)
            for what, (node, parameters, named) in cases[k : k + 3]
        ]
        for what, process, named in started:
            assert process.wait() != 0, what
            assert named in process.output, what
            assert "Traceback" not in process.output, what


REFUSAL = """
from rclpy._rclpy_pybind11 import RCLError
from rclpy.node import Node

create_publisher = Node.create_publisher

def refusing(self, kind, topic, *arguments, **options):
    if topic.endswith({ending!r}):
        raise RCLError(f"topic {{topic}} not found in allow rule")
    return create_publisher(self, kind, topic, *arguments, **options)

Node.create_publisher = refusing
"""
"""Preamble of a node under SROS2 whose permissions lack a topic."""


def test_a_topic_that_ros_refuses_ends_the_start_with_a_line_that_names_it(
    bring_up: BringUp, probe: Probe
) -> None:
    """Whether the topic is made with the node or when it is activated."""
    source = probe.stream(controller_setting.resting())
    topics = ("/diagnostics", "effort_controller/commands")
    for ending in topics:
        preamble = REFUSAL.format(ending=ending)
        process = bring_up.start("passivity_controller", {"urdf": "arm7"}, preamble=preamble)
        assert process.wait() == 1, ending
        assert f"{ending} not found in allow rule" in process.output
        assert "Traceback" not in process.output
    source.on = False


def close_streams() -> None:
    """Close standard streams before the node runs, as some supervisors do."""
    for number in (0, 1, 2):
        os.close(number)


def test_closed_streams_and_no_place_for_logs_keep_no_node_from_starting(
    bring_up: BringUp, probe: Probe, tmp_path: Path
) -> None:
    """Nor does a folder of logs that cannot be written."""
    file = tmp_path / "file"
    file.touch()
    # Name of the node: its environment and streams, and what stderr must hold.
    starts: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
        "no_stream": (bring_up.environment, {"preexec_fn": close_streams}, ""),
        "no_log_folder": ({**bring_up.environment, "ROS_LOG_DIR": str(file)}, {}, str(file)),
    }
    for name, (environment, streams, told) in starts.items():
        log = tmp_path / name
        with log.open("wb") as stream:
            arguments = ["--ros-args", "-r", f"__ns:=/{name}", "-p", "urdf:=arm7"]
            process = subprocess.Popen(
                [sys.executable, "-m", "rbd_control.nodes.simulated_arm", *arguments],
                env=environment,
                **{"stdout": stream, "stderr": stream, **streams},
            )
        try:
            probe.wait_for_report(
                f"{name}/simulated_arm", lambda r: r.values["state"] == "active", "is not active"
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, name
        finally:
            process.kill()
            process.wait()
        output = log.read_text(encoding="utf-8")
        assert told in output, output
        assert "Traceback" not in output


def test_enforced_security_without_keys_is_no_start(bring_up: BringUp, tmp_path: Path) -> None:
    """Neither without an enclave nor with a middleware that has no security."""
    ended = subprocess.run(
        command("passivity_controller"),
        env={
            **bring_up.environment,
            "ROS_SECURITY_ENABLE": "true",
            "ROS_SECURITY_STRATEGY": "Enforce",
            "ROS_SECURITY_KEYSTORE": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    assert "SECURITY ERROR" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_description_may_come_from_its_topic(bring_up: BringUp, probe: Probe) -> None:
    """The detector waits for it; another one while it works ends the verdict."""
    detector = bring_up.start("contact_detector", {"autostart": True})
    probe.wait_for_report(
        "contact_detector", lambda r: "robot_description" in r.message, "does not ask for it"
    )
    publisher = probe.node.create_publisher(String, "robot_description", LATCHED)
    publisher.publish(String(data=arm7_urdf()))
    probe.wait_for_report(
        "contact_detector", lambda r: r.values["state"] == "active", "does not start"
    )
    probe.stream(detector_setting.resting(), "joint_states")
    flags = probe.listen(Bool, "contact_detector/contact")
    probe.wait(lambda: len(flags) > 0, "no verdict")
    publisher.publish(String(data="<robot/>"))
    probe.wait_for_report(
        "contact_detector",
        lambda r: "another robot description" in r.message,
        "another description is not remarked on",
    )
    state = probe.call(GetState, "contact_detector/get_state")
    assert state.current_state.label == "active"
    # By hand through the life cycle: nothing is published any more, and it starts again.
    name = "contact_detector"
    for transition in ("deactivate", "cleanup", "configure"):
        # The last description is none of a robot.
        assert probe.change(name, transition) == (transition != "configure")
    publisher.publish(String(data=arm7_urdf()))
    probe.wait(lambda: probe.change(name, "configure"), "cannot be configured again")
    probe.node.destroy_publisher(publisher)
    detector.end(signal.SIGINT)
    # The events executor prints this when one clock has eight timers.
    assert "number of timers" not in detector.output


def test_an_operator_ends_the_automatic_start(bring_up: BringUp, probe: Probe) -> None:
    """A controller that waits for its activation is cleaned up: it stays unconfigured."""
    name = "operated"
    probe.stream(controller_setting.resting(), f"{name}/joint_states")
    commands = controller_setting.torques(probe, name)
    process = bring_up.start(
        "passivity_controller",
        {"urdf": "arm7", "timeout": STANDSTILL, "discovery_time": 1.5},
        controller_setting.in_space(name),
    )

    def state() -> str:
        return str(probe.call(GetState, f"{name}/get_state").current_state.label)

    probe.wait(lambda: state() == "inactive", "is not configured")
    count = len(commands)
    assert probe.change(name, "cleanup")
    assert "autostart ends" in process.output
    time.sleep(2.0)  # longer than the wait for other controllers
    assert state() == "unconfigured"
    assert len(commands) == count
    # By request it starts as ever, and stays as it is told to be.
    assert probe.change(name, "configure")
    probe.wait(lambda: probe.change(name, "activate"), "cannot be activated")
    probe.wait(lambda: len(commands) > count, "sends no torque")
    assert probe.change(name, "deactivate")
    assert state() == "inactive"
    process.end(signal.SIGINT)


@pytest.mark.parametrize(
    ("node", "rehearsals"),
    [
        (
            "contact_detector",
            ("nodes.contact_detector.rehearse_detector", "ros.joint_state_input.rehearse_intake"),
        ),
        ("passivity_controller", ("nodes.passivity_controller.rehearse_controller",)),
        ("simulated_arm", ("nodes.simulated_arm.rehearse_arm",)),
    ],
)
def test_a_configured_node_has_rehearsed(
    node: str, rehearsals: tuple[str, ...], bring_up: BringUp, probe: Probe
) -> None:
    """Forked nodes would not show it otherwise: they begin with loaded code."""
    told = f"""
from functools import partial
from importlib import import_module
def tell(name, rehearse, *given):
    rehearse(*given)
    print(f"{{name}} ended", flush=True)
for name in {rehearsals}:
    module, _, function = name.rpartition(".")
    owner = import_module(f"rbd_control.{{module}}")
    setattr(owner, function, partial(tell, name, getattr(owner, function)))
"""
    name = f"{node}_that_rehearses"
    process = bring_up.start(
        node, {"urdf": "arm7", "autostart": False}, ["-r", f"__node:={name}"], preamble=told
    )
    assert probe.change(name, "configure")
    for rehearsal in rehearsals:
        assert f"{rehearsal} ended" in process.output
    process.end()


def test_the_arm_alone(bring_up: BringUp, probe: Probe) -> None:
    """It is braked until commands arrive, with the given joint order and rate."""
    joints = [f"joint_{i}" for i in (7, 6, 5, 4, 3, 2, 1)]
    position = [0.7, 0.6, 0.5, -0.4, 0.3, 0.2, 0.1]
    arm = bring_up.start(
        "simulated_arm",
        {"urdf": "arm7", "joints": joints, "initial_position": position, "rate": 200.0},
    )
    states = probe.listen(JointState, "joint_states")
    description = probe.listen(String, "robot_description", LATCHED)
    truth = probe.listen(Bool, "simulated_arm/true_contact", LATCHED)
    probe.wait(lambda: len(states) > 20, "no joint states")
    expected = dict(zip(joints, position, strict=True))
    measured = dict(zip(states[-1].name, states[-1].position, strict=True))
    # Brakes hold as friction does: the arm creeps, by far less than a milliradian in a minute.
    assert measured == pytest.approx(expected, abs=1e-2)
    assert not len(states[-1].effort)  # motors off: their torque says nothing of the joints
    steps = np.diff([s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in states])
    assert np.allclose(steps, 0.005, atol=1e-6)
    probe.wait(lambda: description and description[-1].data == arm7_urdf(), "no description")
    probe.wait(lambda: truth and not truth[-1].data, "contact from nothing")
    bad_commands_close_the_brakes(probe, states, [0.0] * 6, 2.0)
    bad_commands_close_the_brakes(probe, states, [float("nan")] * 7, -2.0)
    # A change of parameters is applied, or refused with the reason.
    for changes, reason in (
        ({"friction_coulomb": [1.0, 2.0]}, "friction_coulomb"),
        ({"payload_link": "nonsense"}, "nonsense"),
    ):
        answer = controller_setting.set_parameters(probe, "simulated_arm", **changes)
        assert not answer.successful
        assert reason in answer.reason
    assert controller_setting.set_parameters(probe, "simulated_arm", effort_gain=[2.0]).successful
    arm.end()


def bad_commands_close_the_brakes(
    probe: Probe, states: Heard, bad_torque: list[float], torque: float
) -> None:
    """Good commands among bad ones move the arm; bad commands alone do not.

    Args:
        probe: the other end of the topics.
        states: joint states of the arm.
        bad_torque: data of the bad commands.
        torque: torque of the good commands on joint_7 [N·m].
    """
    topic, name = "effort_controller/commands", "simulated_arm"
    count = int(probe.report(name).values["bad commands"])
    begin = states[-1].position[6]
    # joint_7, the last of the arm, is the first of `joints`.
    good, bad = Float64MultiArray(data=[torque, *[0.0] * 6]), Float64MultiArray(data=bad_torque)

    def is_turned() -> bool:
        return bool((states[-1].position[6] - begin) / torque > 0.025)

    with probe.repeated(topic, bad):
        with probe.repeated(topic, good):
            probe.wait(is_turned, "the torque does not turn its joint")
            report = probe.wait_for_report(
                name,
                lambda r: (
                    "brakes closed" not in r.message and int(r.values["bad commands"]) > count
                ),
                "bad commands are not counted, or close the brakes",
            )
        count = int(report.values["bad commands"])
        probe.wait_for_report(
            name,
            lambda r: "brakes closed" in r.message and int(r.values["bad commands"]) > count,
            "bad commands keep the brakes open",
        )


def test_another_process_compiles_the_controller_only_while_the_detector_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []
    monkeypatch.setattr("rbd_control.startup.warmup.start_beside", started.append)
    monkeypatch.setattr("rbd_control.startup.warmup.usable_cores", lambda: 2)
    monkeypatch.setattr(ContactDetectorNode, "on_compiling", lambda _self, _kernel: None)
    detector = object.__new__(InProcessDetector)
    detector._beside, detector.is_configuring = None, False
    detector.on_compiling("kernel")
    assert not started
    detector.is_configuring = True
    detector.on_compiling("kernel")
    assert started == ["passivity controller"]

    def fail(_name: str) -> None:
        raise OSError("too little memory")

    monkeypatch.setattr("rbd_control.startup.warmup.start_beside", fail)
    detector.on_compiling("kernel")  # the controller compiles its code later
    assert detector._beside is None
