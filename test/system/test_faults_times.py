"""Time from the last usable joint state to the answer of a running node with its own timeout.

A busy machine delays messages and nodes, and then the fault is repeated; an answer that is late
each time fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.nodes.contact_detector import SILENCE

from . import detector_setting as detector
from .bringup import BringUp
from .controller_setting import NODE, STILL, hold_again, resting, torques
from .probe import Heard, Probe, Source
from .test_controller import UNUSABLE

TIMEOUT = 0.05
"""The controller's timeout, its default [s]."""

LATE = 0.04
"""Period of joint states and of watchdogs, 0.01 s each, and the delay of messages [s]."""


class Spoiled(Source):
    """A source whose every message may be changed before it is sent."""

    change: Callable[[JointState], object] | None = None
    good = 0.0
    """When the last message that was not changed was made, on the monotonic clock [s]."""

    def message(self, stamp: Any) -> JointState:
        message = super().message(stamp)
        if self.change is not None:
            self.change(message)
        else:
            self.good = time.monotonic()
        return message

    def spoil(self, kind: str) -> None:
        """Send nothing from now on, or only messages that cannot be used."""
        self.on = kind != "silence"
        self.change = UNUSABLE.get(kind)

    def put_in_order(self) -> None:
        """Send good joint states again."""
        self.on, self.change = True, None


FAULTS = ("silence", "missing joint")


@pytest.mark.parametrize("kind", FAULTS)
def test_the_torque_is_zero_within_the_timeout(
    kind: str, probe: Probe, controlled: Spoiled
) -> None:
    """Never before it, unless the machine was late already."""
    commands = torques(probe)

    def is_in_time() -> bool:
        hold_again(probe)
        first = len(commands)
        controlled.spoil(kind)
        probe.wait(lambda: first_zero(commands, first), "no zero torque")
        delay = commands.times[first_zero(commands, first)] - controlled.good
        controlled.put_in_order()
        return TIMEOUT <= delay <= TIMEOUT + LATE

    probe.wait(is_in_time, "the zero torque is late each time, or early")


def first_zero(commands: Heard, first: int) -> int:
    """Return the index of the first zero torque at or after index ``first``; 0 without one."""
    zeros = [k for k in range(first, len(commands)) if not np.any(commands[k].data)]
    return zeros[0] if zeros else 0


@pytest.fixture(scope="module")
def controlled(bring_up: BringUp, probe: Probe) -> Spoiled:
    """Return the joint states of a controller that holds the arm."""
    bring_up.start(NODE, {"urdf": "arm7", "discovery_time": 0.0, **STILL})
    source = Spoiled(**vars(resting()))
    probe.stream(source)
    hold_again(probe)
    return source


@pytest.mark.parametrize("kind", FAULTS)
def test_there_is_no_verdict_after_a_silence(kind: str, probe: Probe, judged: Spoiled) -> None:
    """The verdict is repeated until then, and comes back by itself."""
    flags = probe.listen(Bool, f"{detector.NODE}/contact")

    def is_in_time() -> bool:
        first = len(flags)
        probe.wait(lambda: len(flags) > first + 10, "no verdict")
        judged.spoil(kind)
        # Verdicts are repeated every 20 ms.
        probe.wait(lambda: time.monotonic() > max(flags.last, judged.good) + 0.5, "still a verdict")
        delay = flags.last - judged.good
        judged.put_in_order()
        return SILENCE - LATE <= delay <= SILENCE + LATE

    probe.wait(is_in_time, "the last verdict is late each time, or early")


@pytest.fixture(scope="module")
def judged(bring_up: BringUp, probe: Probe) -> Spoiled:
    """Return the joint states of a detector, with effort."""
    bring_up.start(detector.NODE, detector.PARAMETERS, ["-r", "joint_states:=judged/joint_states"])
    source = Spoiled(**vars(detector.resting()))
    probe.stream(source, "judged/joint_states")
    return source
