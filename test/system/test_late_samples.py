"""A detector publishes no wrench at the tool for late samples, which do not show the present."""

from __future__ import annotations

from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState

from rbd_control.ros.messages import to_seconds

from .bringup import BringUp
from .detector_setting import NODE, PARAMETERS, POSTURE, resting
from .probe import Heard, Probe

MOVED = POSTURE + 0.0005
"""Position in which every sample is late [rad]."""

LATE_SAMPLES = f"""
from dataclasses import replace
from rbd_control.nodes.contact_detector import ContactDetectorNode

judge, report = ContactDetectorNode.judge, ContactDetectorNode.report
count = [0]

def judge_some_as_late(self, sample, stamp):
    is_late = sample.q[0] > {0.5 * (POSTURE[0] + MOVED[0])}
    judge(self, replace(sample, is_late=is_late), stamp)

def report_every_second_time(self):
    count[0] += 1
    if count[0] % 2 == 0:
        report(self)

ContactDetectorNode.judge = judge_some_as_late
ContactDetectorNode.report = report_every_second_time
"""
"""Preamble of a detector to which samples in the position ``MOVED`` are late.

It reports two samples at once, as a detector may in one process with a controller. The results of
the first sample are stored, the results of the second sample are computed when they are published.
"""

ENOUGH = 20
"""Number of samples after which a wrench would have been published."""


def test_no_tool_wrench_for_late_samples(bring_up: BringUp, probe: Probe) -> None:
    """The residual of late samples is published, the wrench at the tool is not."""
    bring_up.start(NODE, PARAMETERS, preamble=LATE_SAMPLES)
    residuals = probe.listen(JointState, f"{NODE}/external_joint_torques")
    wrenches = probe.listen(WrenchStamped, f"{NODE}/tool_wrench")
    source = probe.stream(resting())
    for _ in range(2):
        wait_for_newer(probe, wrenches, now(probe), "no wrench at the tool")
        source.position = MOVED
        late = now(probe)
        wait_for_newer(probe, residuals, late, "no residual")
        assert newer(wrenches, late) == 0, "a wrench of a late sample"
        source.position = POSTURE


def wait_for_newer(probe: Probe, heard: Heard, since: float, otherwise: str) -> None:
    """Wait for ``ENOUGH`` messages with a stamp after ``since`` [s]; else fail."""
    probe.wait(lambda: newer(heard, since) >= ENOUGH, otherwise)


def now(probe: Probe) -> float:
    """Return the time after the stamps of all joint states that were made before this call [s]."""
    return to_seconds(probe.node.get_clock().now().to_msg())


def newer(heard: Heard, since: float) -> int:
    """Return the number of messages with a stamp after ``since`` [s]."""
    return sum(to_seconds(message.header.stamp) > since for message in heard)
