"""Input of the detector: simulated time, other message types and QoS on its topic.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from rbd_control.ros.messages import to_stamp

from .bringup import BringUp
from .detector_scenarios import NODE, PARAMETERS, resting
from .probe import LATCHED, Heard, Probe

ERROR = 2
STEP = 0.005


class Simulation:
    """Publishes the arm at rest, and on request its own time."""

    def __init__(self, probe: Probe) -> None:
        self.time, self.runs, self.tells = 100.0, True, False
        self._states = probe.node.create_publisher(JointState, "joint_states", 50)
        self._clock = probe.node.create_publisher(Clock, "/clock", 50)
        probe.every(STEP, self._tick)

    def _tick(self) -> None:
        self.time += STEP * self.runs
        stamp = to_stamp(self.time)
        if self.tells:
            self._clock.publish(Clock(clock=stamp))
        self._states.publish(resting().message(stamp))


@pytest.fixture
def other_process(bring_up: BringUp) -> Iterator[Probe]:
    """Yield a second probe, for actions that need another DDS participant."""
    probe = Probe(bring_up.domain)
    try:
        yield probe
    finally:
        probe.close()


def wait_for_verdict(probe: Probe, contact: Heard) -> None:
    count = len(contact)
    probe.wait(lambda: len(contact) > count, "no verdict")


def test_simulated_time(bring_up: BringUp, probe: Probe) -> None:
    detector = bring_up.start(NODE, {**PARAMETERS, "use_sim_time": True})
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    simulation = Simulation(probe)
    probe.wait_for_report(  # [24]
        NODE, lambda r: r.level == ERROR and "/clock" in r.message, "no clock is as good as one"
    )
    assert not contact
    simulation.tells = True
    wait_for_verdict(probe, contact)
    simulation.runs = False  # [27]
    probe.wait_for_report(
        NODE, lambda r: r.level == ERROR and "no usable" in r.message, "frozen time is believed"
    )
    probe.later_report(NODE)  # what was on its way has come
    count = len(contact)
    probe.later_report(NODE)
    assert len(contact) == count
    for jump in (-90.0, 500.0):  # [25, 26]
        simulation.time += jump
        simulation.runs = True
        wait_for_verdict(probe, contact)
        assert probe.report(NODE).values["state"] == "active"
        simulation.runs = False
    assert int(probe.report(NODE).values["clock jumps"]) == 1
    detector.kill()


def test_publishers_that_cannot_be_received_are_reported(
    bring_up: BringUp, probe: Probe, other_process: Probe
) -> None:
    """[22, 23] Another type, and best-effort joint states for a reliable receiver."""
    bring_up.start(NODE, {**PARAMETERS, "best_effort": False}, ["-r", "joint_states:=measured"])
    weak = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    other_process.node.create_publisher(JointState, "measured", weak)
    probe.wait_for_report(
        NODE, lambda r: "of probe cannot be received" in r.message, "a mismatch is not told of"
    )
    second = Probe(bring_up.domain)
    second.node.create_publisher(String, "measured", 5)
    try:
        probe.wait_for_report(
            NODE, lambda r: "std_msgs/msg/String" in r.message, "a wrong type is not told of"
        )
    finally:
        second.close()
