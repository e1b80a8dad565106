"""Effects of services, clocks and signals on a controller.

As in :mod:`.controller_scenarios` the arm ships with the package, and its joint states stand still.
The controller adapts and has an energy tank. Numbers in brackets are those of the fault list.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.control import ControllerParameters, Estimates
from rbd_control.dynamics import frame_placement

from .bringup import STANDSTILL, BringUp, Process
from .controller_scenarios import (
    COMMANDS,
    MODEL,
    NODE,
    PARAMETERS,
    POSTURE,
    SECOND,
    STILL,
    WAITS,
    WEIGHT,
    trajectory,
    wait_for_torque,
)
from .probe import Probe, Source

LEARNING: dict[str, Any] = {**PARAMETERS, "adaptive": True, "tank_capacity": 5.0}
DEFAULTS = ControllerParameters()


def energies(probe: Probe, source: Source) -> None:
    """Six energies are published; at rest all but that of the tank are zero, and it is full."""
    energy = probe.listen(Float64MultiArray, f"{NODE}/energy")
    probe.wait(lambda: energy, "no energies")
    message = energy[-1]
    assert message.layout.dim[0].label.startswith("storage [J], dissipated [J], injected [J]")
    assert np.allclose(message.data, [0.0] * 5 + [LEARNING["tank_capacity"]], atol=1e-6)
    report = probe.report(NODE)
    assert float(report.values["tank [J]"]) == LEARNING["tank_capacity"]
    assert float(report.values["payload learned [kg]"]) == 0.0
    assert float(report.values["link_7 mass [kg]"]) > 0.0


def not_passive(probe: Probe, source: Source) -> None:
    """Motors that add energy to the motion are reported as not passive, for as long as they do."""
    source.velocity, source.effort = np.full(MODEL.nv, 0.02), WEIGHT + 10.0
    report = probe.wait_for_report(
        NODE, lambda r: "the control loop injects more energy" in r.message, "holds it for passive"
    )
    assert report.level == 1
    assert int(report.values["samples not passive"]) > 0
    source.velocity, source.effort = np.zeros(MODEL.nv), ()
    probe.wait_for_report(
        NODE, lambda r: int(r.values["samples not passive"]) == 0, "told for ever"
    )


def frozen(probe: Probe, source: Source, bring_up: BringUp) -> None:
    """[13, 51] The source repeats one joint state whose speed is not zero."""
    process = bring_up.start(
        NODE,
        {"urdf": "arm7", "timeout": STANDSTILL, "discovery_time": 0.0},
        ["-r", f"{COMMANDS}:=frozen/commands", "-r", "__node:=frozen"],
    )
    commands = probe.listen(Float64MultiArray, "frozen/commands")
    wait_for_torque(probe, commands, WEIGHT)
    probe.wait_for_report("frozen", lambda r: r.values["mode"] == "hold", "is not content at rest")
    source.velocity = np.full(MODEL.nv, 0.2)  # more than a step of a coarse encoder
    report = probe.wait_for_report(
        "frozen", lambda r: "repeated to the last digit" in r.message, "is content with it"
    )
    assert report.level == 2
    wait_for_torque(probe, commands, np.zeros(MODEL.nv))
    source.velocity = np.zeros(MODEL.nv)
    process.end()


def slowed_down(probe: Probe, source: Source) -> None:
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.wait(lambda: errors, "no tracking error")

    def speed() -> float:
        return float(np.abs(errors[-1].velocity).max())

    top = 1.5 * 0.02 / 4.0  # of a cubic, half way
    assert probe.call(Trigger, f"{NODE}/slow").success
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=4.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    probe.wait(lambda: speed() > 0.0, "does not begin to move")
    assert speed() <= 1.01 * DEFAULTS.slow_factor * top
    answer = probe.call(Trigger, f"{NODE}/resume")
    assert answer.message == "at full speed"
    probe.wait(lambda: speed() > 0.5 * top, "stays slow")
    assert probe.call(Trigger, f"{NODE}/cancel").success
    probe.wait(lambda: speed() == 0.0, "does not stop")
    assert probe.report(NODE).values["goal"] == "cancelled"


def retracted(probe: Probe, source: Source) -> None:
    """The desired position of the touched link moves along the force; then it stays.

    The force is given along the axes of the link.
    """
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    wrench = WrenchStamped()
    wrench.header.frame_id = "link_6"
    wrench.wrench.force.y = 12.0

    def tell() -> None:
        probe.send("contact_detector/external_wrench", wrench)

    def retracts() -> bool:
        """Return whether the force was known at the order, which a busy machine may deliver first.

        A force that is too old does not count, so it is published all the time.
        """
        assert probe.call(Trigger, f"{NODE}/retract").success
        report = probe.wait_for_report(NODE, lambda r: "retract" in r.message, "does not obey")
        return "no contact force is known" not in report.message

    tell()
    teller = probe.every(0.02, tell)
    probe.wait(retracts, "does not retract")
    probe.wait_for_report(
        NODE, lambda r: "retracted along the force on link_6" in r.message, "does not retract"
    )
    probe.end_repetition(teller)

    def way() -> np.ndarray:
        q_d = POSTURE - np.array(errors[-1].position)
        there, here = (frame_placement(MODEL, q, "link_6")[:3, 3] for q in (q_d, POSTURE))
        return np.asarray(there - here)

    distance = DEFAULTS.retract_distance
    direction = frame_placement(MODEL, POSTURE, "link_6")[:3, 1]
    probe.wait(lambda: way() @ direction > 0.7 * distance, "does not move along the force")
    assert np.linalg.norm(way()) < 1.2 * distance
    answer = probe.call(Trigger, f"{NODE}/resume")
    assert (answer.success, answer.message) == (True, "holding here")
    probe.wait(lambda: not np.any(errors[-1].position), "does not hold where it is")


def a_clock_that_jumps(probe: Probe, source: Source) -> None:
    """[25, 26, 27] Back: the trajectory is given up. Forward, or frozen: safe until resumed."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=60.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    source.shift = -60.0
    report = probe.wait_for_report(NODE, lambda r: r.values["goal"] == "cancelled", "goes on")
    assert report.values["mode"] == "hold"
    assert int(report.values["clock jumps"]) == 1
    probe.wait(lambda: errors and not np.any(errors[-1].position), "does not hold where it is")
    source.shift = 0.0
    probe.wait_for_report(NODE, lambda r: "stamps jumped by 60" in r.message, "is not safe")
    _resume(probe)
    source.stamp = probe.node.get_clock().now().to_msg()
    wait_for_torque(probe, commands, np.zeros(MODEL.nv))
    source.stamp = None
    _resume(probe)


def paused_by_its_default(probe: Probe, source: Source, bring_up: BringUp) -> None:
    """[16, 48] A pause of 100 ms with the default timeout: mode safe, with the length reported."""
    process = bring_up.start(
        NODE,
        {"urdf": "arm7", "discovery_time": 0.0, **STILL},
        ["-r", f"{COMMANDS}:=paused/commands", "-r", "__node:=paused"],
    )
    commands = probe.listen(Float64MultiArray, "paused/commands")
    wait_for_torque(probe, commands, WEIGHT)

    def woken() -> bool:
        """Return a busy machine may have made it safe before it was stopped."""
        before = len(process.output)
        probe.call(Trigger, "paused/resume")
        probe.send("paused/joint_trajectory", trajectory(0.2, seconds=9.0))
        answers = ("follow", "refused", "safe torque")
        probe.wait(
            lambda: any(word in process.output[before:] for word in answers),
            "does not answer to a trajectory",
        )
        said = process.output[before:]
        follows = "follow" in said and "safe torque" not in said
        process.signal(signal.SIGSTOP)
        time.sleep(0.1)
        process.signal(signal.SIGCONT)
        probe.wait_for_report("paused", lambda r: "safe" in r.values["mode"], "is not safe")
        return follows and "safe torque: no joint states for 0.1" in process.output[before:]

    probe.wait(woken, "is not safe after 100 ms")
    assert probe.report("paused").values["goal"] == "cancelled"
    wait_for_torque(probe, commands, WEIGHT)
    sent = np.array([message.data for message in commands])
    assert (np.abs(sent) <= MODEL.effort_limit + 1e-9).all()
    process.kill()


def killed(
    probe: Probe, source: Source, bring_up: BringUp, process: Process, estimates: Path
) -> None:
    """[44, 45] A second controller waits while a killed one is listed, and loads its estimates.

    The second one runs before the first is killed: one that starts later may never discover the
    first. Meanwhile no torque is sent, which the timeout of the arm covers.
    """
    answer = probe.call(Trigger, f"{NODE}/save_estimates")
    assert (answer.success, answer.message) == (True, f"written to {estimates}")
    assert [estimate.link for estimate in Estimates.load(estimates).links] == ["link_7"]
    commands = probe.listen(Float64MultiArray, COMMANDS)
    probe.wait(lambda: commands, "sends nothing")
    weight = np.array(commands[-1].data)
    second = _waiting_second(probe, bring_up, {**LEARNING, "estimates": str(estimates)})
    assert f"estimates of {estimates}: payload" in second.output
    process.kill()
    # A report of the dead node may still be on its way, and so may its torques.
    probe.later_report(NODE)
    probe.later_report(NODE)
    count = len(commands)
    probe.later_report(NODE)
    assert len(commands) == count
    # ROS gives the dead one up after 20 s.
    probe.wait(lambda: len(commands) > count, "does not come up")
    wait_for_torque(probe, commands, weight)


def _waiting_second(probe: Probe, bring_up: BringUp, parameters: dict[str, Any]) -> Process:
    """Another controller, which waits for the first to end."""
    second = bring_up.start(NODE, {**parameters, "discovery_time": SECOND["discovery_time"]})
    second.wait_until(lambda: WAITS in second.output)
    return second


def _resume(probe: Probe) -> None:
    probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")
    probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "hold", "does not hold")
