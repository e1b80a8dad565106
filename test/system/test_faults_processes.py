"""What happens to the processes: killed, crowded, given a model that fails, told bad parameters.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from .bringup import BringUp, Process
from .controller_scenarios import (
    COMMANDS,
    NODE,
    PARAMETERS,
    WEIGHT,
    holds,
    resting,
    trajectory,
    wait_for_torque,
)
from .fault_setting import ZERO, resume, set_parameters, torques, wait_for_mode
from .probe import Probe, Source

ARM = "simulated_arm"
CROWD = 50


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    return bring_up.start(NODE, PARAMETERS)


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process) -> Source:
    """The joint states that the controller hears."""
    source = probe.stream(resting())
    holds(probe, source)
    return source


REFUSED: dict[str, dict[str, Any]] = {
    "NaN": {"timeout": nan},
    "infinite": {"torque_rate": inf},
    "out of range": {"stop_time": -1.0},
    "length": {"bandwidth": [1.0, 2.0]},
    "type": {"damping_rate": "much"},
    "choice": {"safe_torque": "some"},
    "fixed while configured": {"queue_depth": 7},
    "together impossible": {"damping": 0.0, "damping_rate": 0.0},
}


@pytest.mark.parametrize("kind", [*REFUSED])
def test_a_bad_change_of_parameters_is_refused_as_a_whole(
    kind: str, probe: Probe, source: Source
) -> None:
    """[37, 38] The reason names it, nothing of the change stays, and the arm is held as before."""
    commands = torques(probe)
    answer = set_parameters(probe, NODE, gravity_compensated=True, **REFUSED[kind])
    assert not answer.successful
    assert any(name in answer.reason for name in REFUSED[kind])
    # Part of the change would have taken the weight off the torque.
    first = len(commands)
    probe.wait(lambda: len(commands) > first + 20, "no more torque")
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)


@pytest.fixture
def crowd(bring_up: BringUp) -> Iterator[list[Node]]:
    """Other nodes in the domain, with topics of their own and an interest in joint states."""
    context = Context()

    rclpy.init(
        args=[],
        context=context,
        domain_id=bring_up.domain,
        signal_handler_options=SignalHandlerOptions.NO,
    )
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
    first = len(commands)
    assert probe.report(NODE).values["mode"] == "hold"
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
    # It still does what it is told.
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=0.5))
    probe.wait(lambda: errors and np.allclose(errors[-1].position, -0.02, atol=1e-4), "stays")
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.0, seconds=0.5))
    wait_for_torque(probe, commands, WEIGHT)


FAILING = """
import sys
from pathlib import Path
from rbd_control.control.passivity_controller import PassivityController
from rbd_control.nodes.passivity_controller import main

once = PassivityController.update

def update(self, stamp, q, v, now=None):
    if Path(sys.argv[1]).exists():
        self._law.torque = raising
    else:
        vars(self._law).pop("torque", None)
    return once(self, stamp, q, v, now)

def raising(*arguments):
    raise ArithmeticError("the model has failed")

PassivityController.update = update
sys.exit(main(sys.argv[2:]))
"""
"""The controller with a law that raises for as long as a file exists."""


def test_a_model_that_raises_leads_to_the_safe_torque(
    bring_up: BringUp, probe: Probe, source: Source, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """[42] At once, with the error in the log and in /diagnostics; the process lives on."""
    folder = tmp_path_factory.mktemp("failing")
    trigger = folder / "fail"
    failing = Process(
        [sys.executable, "-c", FAILING, str(trigger), "--ros-args", "-p", "urdf:=arm7"]
        + ["-p", "timeout:=1.0", "-r", "__node:=failing", "-r", f"{COMMANDS}:=failing/commands"],
        bring_up.environment,
        folder / "log",
    )
    try:
        commands = probe.listen(Float64MultiArray, "failing/commands")
        wait_for_torque(probe, commands, WEIGHT)
        trigger.touch()
        report = wait_for_mode(probe, "safe", "failing")
        assert "the model has failed" in report.message
        assert "Traceback" not in failing.output
        trigger.unlink()
        resume(probe, "failing")
        wait_for_torque(probe, commands, WEIGHT)
        assert np.isfinite([message.data for message in commands]).all()
    finally:
        failing.signal(signal.SIGTERM)
        assert failing.wait() == 0


def test_a_killed_controller_leaves_the_arm_to_its_brakes(
    bring_up: BringUp, probe: Probe, process: Process, source: Source
) -> None:
    """[44] SIGKILL sends no zero torque: the arm's own timeout closes its brakes."""
    source.on = False
    wait_for_torque(probe, torques(probe), ZERO)
    process.kill()
    space = ["-r", "joint_states:=killed/joint_states", "-r", f"{COMMANDS}:=killed/commands"]
    bring_up.start(ARM, {"urdf": "arm7"}, space)
    controller = bring_up.start(NODE, {"urdf": "arm7"}, [*space, "-r", "__node:=killed"])
    states = probe.listen(JointState, "killed/joint_states")
    wait_for_mode(probe, "hold", "killed")
    probe.wait_for_report(ARM, lambda r: "brakes" not in r.message, "the brakes stay closed")
    controller.kill()
    probe.wait_for_report(ARM, lambda r: "brakes closed" in r.message, "does not brake")
    probe.wait(lambda: np.abs(states[-1].velocity).max() < 1e-2, "does not come to rest")
