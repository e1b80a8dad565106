"""Time from the last usable joint state to the answer of a running node with its own timeout.

A busy machine delays messages and nodes, and then the fault is repeated; an answer that is late
each time fails. The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.nodes.contact_detector import SILENCE

from . import detector_scenarios as detector
from .bringup import BringUp
from .controller_scenarios import NODE, STILL, holds, resting
from .fault_setting import hold_again, torques
from .probe import Heard, Probe
from .test_faults_joint_states import UNUSABLE, Spoiled

TIMEOUT = 0.05
"""The controller's timeout, its default [s]."""

LATE = 0.04
"""Period of joint states and of watchdogs, 0.01 s each, and the delay of messages [s]."""


class Streamed(Spoiled):
    """A source whose publisher may end and begin again."""

    topic = "joint_states"


def silent(source: Streamed, probe: Probe) -> None:
    source.on = False


def restarting(source: Streamed, probe: Probe) -> None:
    """End the publisher; :func:`put_in_order` starts another."""
    source.topic = source.publishers[0].topic_name
    probe.end_stream(source)


def unusable(kind: str) -> Callable[[Streamed, Probe], None]:
    def spoil(source: Streamed, probe: Probe) -> None:
        source.change = UNUSABLE[kind]

    return spoil


FAULTS = {
    "silence": silent,
    "a publisher that restarts": restarting,
    "lengths": unusable("lengths"),
    "missing joint": unusable("missing joint"),
}


def put_in_order(source: Streamed, probe: Probe) -> None:
    """Send good joint states again."""
    if not source.publishers:
        source.publishers.append(probe.node.create_publisher(JointState, source.topic, 50))
    source.on, source.change = True, None


@pytest.fixture(scope="module")
def controlled(bring_up: BringUp, probe: Probe) -> Streamed:
    """Return the joint states of a controller that holds the arm."""
    bring_up.start(NODE, {"urdf": "arm7", "discovery_time": 0.0, **STILL})
    source = Streamed(**vars(resting()))
    probe.stream(source)
    hold_again(probe)
    holds(probe, source)
    return source


@pytest.mark.parametrize("kind", [*FAULTS])
def test_the_torque_is_zero_within_the_timeout(
    kind: str, probe: Probe, controlled: Streamed
) -> None:
    """[5, 9, 19, 20] Never before it, unless the machine was late already."""
    commands = torques(probe)

    def is_in_time() -> bool:
        hold_again(probe)
        first = len(commands)
        FAULTS[kind](controlled, probe)
        probe.wait(lambda: first_zero(commands, first), "no zero torque")
        delay = commands.times[first_zero(commands, first)] - controlled.good
        put_in_order(controlled, probe)
        return TIMEOUT <= delay <= TIMEOUT + LATE

    try:
        probe.wait(is_in_time, "the zero torque is late each time, or early")
    finally:
        put_in_order(controlled, probe)


def first_zero(commands: Heard, first: int) -> int:
    """Return the index of the first zero torque at or after index ``first``; 0 without one."""
    zeros = [k for k in range(first, len(commands)) if not np.any(commands[k].data)]
    return zeros[0] if zeros else 0


@pytest.mark.parametrize("kind", [*FAULTS])
def test_there_is_no_verdict_after_a_silence(kind: str, probe: Probe, judged: Streamed) -> None:
    """[5, 9, 19, 20] The verdict is repeated until then, and comes back by itself."""
    flags = probe.listen(Bool, f"{detector.NODE}/contact")

    def is_in_time() -> bool:
        first = len(flags)
        probe.wait(lambda: len(flags) > first + 10, "no verdict")
        FAULTS[kind](judged, probe)
        # Verdicts are repeated every 20 ms.
        probe.wait(lambda: time.monotonic() > max(flags.last, judged.good) + 0.5, "still a verdict")
        delay = flags.last - judged.good
        put_in_order(judged, probe)
        return SILENCE - LATE <= delay <= SILENCE + LATE

    try:
        probe.wait(is_in_time, "the last verdict is late each time, or early")
    finally:
        put_in_order(judged, probe)


@pytest.fixture(scope="module")
def judged(bring_up: BringUp, probe: Probe, controlled: Streamed) -> Streamed:
    """Return the joint states of a detector, with effort; those of the controller end."""
    controlled.on = False
    bring_up.start(detector.NODE, detector.PARAMETERS, ["-r", "joint_states:=judged/joint_states"])
    source = Streamed(**vars(detector.resting()))
    probe.stream(source, "judged/joint_states")
    return source
