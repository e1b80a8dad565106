"""Faults of processes: killed, crowded domain, failing model, bad parameters.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.ros.transports import without_shared_memory
from rbd_control.simulation import arm7_urdf

from .bringup import REPORT_PERIOD, STANDSTILL, BringUp, Process, command
from .controller_scenarios import (
    COMMANDS,
    NODE,
    PARAMETERS,
    WEIGHT,
    wait_for_torque,
)
from .fault_setting import ZERO, holding, resume, set_parameters, torques, wait_for_mode
from .probe import Probe, Source, context_in

ARM = "simulated_arm"
CROWD = 50


REFUSED: dict[str, dict[str, Any]] = {
    "NaN": {"timeout": nan},
    "infinite": {"torque_rate": inf},
    "out of range": {"stop_time": -1.0},
    "length": {"bandwidth": [1.0, 2.0]},
    "type": {"damping_rate": "much"},
    "choice": {"safe_torque": "some"},
    "fixed while configured": {"queue_depth": 7},
    "together impossible": {"implausible_speed": 1.5, "overspeed_factor": 2.0},
    "too weak for the weight": {"torque_share": 0.1},
}


@pytest.mark.parametrize("kind", [*REFUSED])
def test_a_bad_change_of_parameters_is_refused_as_a_whole(
    kind: str, probe: Probe, source: Source
) -> None:
    """[38, 112] The reason names the parameter, no value changes, and the arm is held as before."""
    commands = torques(probe)
    answer = set_parameters(probe, NODE, payload_mass=1.0, **REFUSED[kind])
    assert not answer.successful
    assert any(name in answer.reason for name in [*REFUSED[kind], "too heavy: joint_2"])
    # Part of the change would have added the weight of a payload to the torque.
    first = len(commands)
    probe.wait(lambda: len(commands) > first + 20, "no more torque")
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)


UNSIMULATED: dict[str, dict[str, Any]] = {
    "length": {"friction_coulomb": [1.0, 2.0]},
    "length of a gain": {"effort_gain": [1.0, 2.0, 3.0]},
    "link": {"payload_link": "nonsense"},
    "inertia of no body": {"payload_mass": 1.0, "payload_inertia": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]},
    "fixed while configured": {"coulomb": [1.0]},
}
"""Changes of parameters that the simulated arm cannot apply while it runs."""


def test_the_simulated_arm_applies_a_change_or_refuses_it(bring_up: BringUp, probe: Probe) -> None:
    """[38] Under the torque that holds it, the arm sinks with a payload until friction holds it."""
    posture = [0.3, 0.5, -0.2, -1.3, 0.4, 0.9, -0.5]
    parameters = {"urdf": "arm7", "initial_position": posture, "rate": 200.0, "effort_noise": 0.0}
    bring_up.start(ARM, parameters, ["-r", "__ns:=/simulated"])
    name = f"simulated/{ARM}"
    weight = gravity_torque(Model.from_urdf(arm7_urdf()), np.array(posture))
    states = probe.listen(JointState, "/simulated/joint_states")
    commands = probe.node.create_publisher(
        Float64MultiArray, "/simulated/effort_controller/commands", 1
    )
    message = Float64MultiArray(data=weight.tolist())
    repetition = probe.every(0.01, lambda: commands.publish(message))
    probe.wait(lambda: states and len(states[-1].effort), "no joint states with effort")
    for changes in UNSIMULATED.values():
        answer = set_parameters(probe, name, **changes)
        assert not answer.successful, changes
        assert any(word in answer.reason for word in (*changes, "nonsense", "payload")), answer
    assert set_parameters(probe, name, effort_kind="current", effort_gain=[2.0]).successful
    probe.wait(lambda: np.allclose(states[-1].effort, weight / 2.0), "effort is no current")
    assert np.allclose(states[-1].position, posture, atol=0.05)
    assert set_parameters(probe, name, payload_mass=3.0).successful
    probe.wait(lambda: states[-1].position[1] > posture[1] + 0.1, "the payload weighs nothing")
    friction = {"friction_model": "coulomb_viscous", "friction_coulomb": [300.0]}
    assert set_parameters(probe, name, **friction).successful
    probe.wait(lambda: np.abs(states[-1].velocity).max() < 0.01, "friction does not hold the arm")
    probe.end_repetition(repetition)


@pytest.fixture
def crowd(bring_up: BringUp) -> Iterator[list[Node]]:
    """Other nodes in the domain, with topics of their own and an interest in joint states."""
    with without_shared_memory():
        context = context_in(bring_up.domain)
        nodes = [Node(f"other_{k}", context=context) for k in range(CROWD)]
    for node in nodes:
        node.create_subscription(JointState, "joint_states", lambda message: None, 1)
        node.create_publisher(Float64MultiArray, f"{node.get_name()}/commands", 1)
    yield nodes
    for node in nodes:
        node.destroy_node()
    context.shutdown()


def test_fifty_other_nodes_change_nothing(probe: Probe, source: Source, crowd: list[Node]) -> None:
    """[47] They are not taken for rivals, and the arm is held as before."""
    commands = torques(probe)
    probe.wait(
        lambda: sum("other_" in name for name in probe.node.get_node_names()) == CROWD,
        "the others are not found",
    )

    def held() -> bool:
        first = len(commands)
        report = holding(probe, PARAMETERS["timeout"])
        if report is None:  # late joint states ended the hold; it was resumed
            return False
        assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
        return True

    probe.wait(held, "does not hold")


FAILING = """
import sys
from pathlib import Path
from rbd_control.control.passivity_controller import PassivityController
from rbd_control.control.torque_path import TorquePath
from rbd_control.nodes.passivity_controller import main

def failing(name):
    kind = TorquePath if hasattr(TorquePath, name) else PassivityController
    unchanged = getattr(kind, name)
    def method(self, *arguments, **options):
        if Path(sys.argv[1], name).exists():
            raise ArithmeticError(f"{name} has failed")
        return unchanged(self, *arguments, **options)
    setattr(kind, name, method)

for name in sys.argv[2].split(","):
    failing(name)
sys.exit(main(sys.argv[3:]))
"""
"""The controller with methods that raise for as long as a file of their name exists."""

METHODS = {"the law": "wanted", "the callback of the contact flag": "contact"}


@pytest.fixture(scope="module")
def failing(
    bring_up: BringUp,
    probe: Probe,
    source: Source,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Process, Path]]:
    """Yield a controller that can be made to fail, and the folder of the files that do it."""
    folder = tmp_path_factory.mktemp("failing")
    process = Process.of(
        [sys.executable, "-c", FAILING, str(folder), ",".join(METHODS.values()), "--ros-args"]
        + ["-p", "urdf:=arm7", "-p", f"timeout:={STANDSTILL}", "-r", "__node:=failing"]
        + ["-r", f"{COMMANDS}:=failing/commands", "-r", "contact_detector/contact:=flag"],
        bring_up.environment,
        folder / "log",
    )
    try:
        wait_for_torque(probe, probe.listen(Float64MultiArray, "failing/commands"), WEIGHT)
        yield process, folder
        process.end()
    finally:
        process.kill()


@pytest.mark.parametrize("what", METHODS)
def test_an_exception_leads_to_the_safe_torque(
    what: str, probe: Probe, source: Source, failing: tuple[Process, Path]
) -> None:
    """[42, 55] At once, with the error in the log and in /diagnostics; the process lives on.

    A sample for which the law fails is answered by zero.
    """
    process, folder = failing
    commands = probe.listen(Float64MultiArray, "failing/commands")
    first = len(commands)
    method = folder / METHODS[what]

    def failed() -> bool:
        method.touch()
        probe.send("flag", Bool())
        report = wait_for_mode(probe, "safe", "failing")
        method.unlink()
        resume(probe, "failing")
        # The joint states of this test may have been late, which is another fault.
        return "has failed" in report.message

    probe.wait(failed, "does not report the failure")
    assert "Traceback" not in process.output
    wait_for_torque(probe, commands, WEIGHT)
    sent = np.array([message.data for message in commands[first:]])
    is_zero = (sent == 0.0).all(axis=1)
    assert is_zero.any() or what != "the law"
    assert np.allclose(sent[~is_zero], WEIGHT, atol=1e-6)


REPORTS = round(3.0 / REPORT_PERIOD)
"""Number of reports that are watched beside busy processes: those of three seconds."""

BUSY = 4
"""Number of processes that only use processor time."""


def test_busy_processes_beside_it_change_nothing(probe: Probe, source: Source) -> None:
    """[80] The controller holds the arm; delays below ``timeout`` are no fault."""
    commands = torques(probe)

    def undisturbed() -> bool:
        first = len(commands)
        if not all(holding(probe, PARAMETERS["timeout"]) for _ in range(REPORTS)):
            return False
        assert len(commands) > first
        assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
        return True

    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL)
        for _ in range(BUSY)
    ]
    try:
        probe.wait(undisturbed, "joint states are late again and again")
    finally:
        for process in busy:
            process.kill()
            process.wait()


UNREAD = """
import os
from contextlib import suppress
reading, writing = os.pipe()
os.set_blocking(writing, False)
for size in (4096, 1):
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(size))
os.set_blocking(writing, True)
os.dup2(writing, 1)
os.dup2(writing, 2)
"""
"""Preamble of a node whose output goes to a full pipe that no process reads."""


def test_a_controller_whose_output_nobody_reads_goes_on(
    bring_up: BringUp, probe: Probe, source: Source
) -> None:
    """[129] It writes log lines at its start, at a hold, and at its end."""
    remapped = ["-r", "__node:=unread", "-r", f"{COMMANDS}:=unread/commands"]
    process = bring_up.start(NODE, PARAMETERS, remapped, preamble=UNREAD)
    commands = probe.listen(Float64MultiArray, "unread/commands")
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.call(Trigger, "unread/hold").success
    first = len(commands)
    probe.wait(lambda: len(commands) > first + 20, "no more torque")
    process.end()
    assert not np.any(commands[-1].data)


def test_ctrl_z_does_not_stop_a_controller(bring_up: BringUp, probe: Probe, source: Source) -> None:
    """[129] The arm would keep the last torque of a stopped process."""
    remapped = ["-r", "__node:=paused", "-r", f"{COMMANDS}:=paused/commands"]
    process = bring_up.start(NODE, PARAMETERS, remapped)
    commands = probe.listen(Float64MultiArray, "paused/commands")
    wait_for_torque(probe, commands, WEIGHT)
    process.signal(signal.SIGTSTP)
    first = len(commands)
    probe.wait(lambda: len(commands) > first + 20, "no more torque")
    process.end()


def test_enforced_security_without_keys_is_no_start(bring_up: BringUp, tmp_path: Path) -> None:
    """[90] Neither without an enclave nor with a middleware that has no security."""
    ended = subprocess.run(
        command(NODE),
        env={
            **bring_up.environment,
            "ROS_SECURITY_ENABLE": "true",
            "ROS_SECURITY_STRATEGY": "Enforce",
            "ROS_SECURITY_KEYSTORE": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1
    assert "SECURITY ERROR" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_killed_controller_leaves_the_arm_to_its_brakes(
    bring_up: BringUp, probe: Probe, process: Process, source: Source
) -> None:
    """[44] SIGKILL sends no zero torque: the arm's own timeout closes its brakes."""
    source.on = False
    wait_for_torque(probe, torques(probe), ZERO)
    process.kill()
    space = ["-r", "joint_states:=killed/joint_states", "-r", f"{COMMANDS}:=killed/commands"]
    bring_up.start(ARM, {"urdf": "arm7"}, space)
    controller = bring_up.start(
        NODE, {"urdf": "arm7", "discovery_time": 0.0}, [*space, "-r", "__node:=killed"]
    )
    states = probe.listen(JointState, "killed/joint_states")
    wait_for_mode(probe, "hold", "killed")
    probe.wait_for_report(ARM, lambda r: "brakes" not in r.message, "the brakes stay closed")
    controller.kill()
    probe.wait_for_report(ARM, lambda r: "brakes closed" in r.message, "does not brake")
    probe.wait(lambda: np.abs(states[-1].velocity).max() < 1e-2, "does not come to rest")
