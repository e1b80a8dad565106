"""Controllers that start together."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from .bringup import BringUp, Process
from .controller_setting import (
    COMMANDS,
    NODE,
    PARAMETERS,
    WAITS,
    WEIGHT,
    ZERO,
    resting,
    torques,
    wait_for_torque,
)
from .probe import Probe, Source

DEFAULT_DISCOVERY = True
"""Whether participants announce themselves as seldom as those of users."""

ROOM = {"left": 4.0, "right": 6.0}
"""``discovery_time`` of each [s].

It is more than the default of 3.5 s, because a busy machine takes longer to discover a node. Two
controllers that send their first torque at the same time would both be safe.
"""

SLOW = """
import time
from rclpy.node import Node
begin, count = [], Node.count_publishers
def slowly(self, topic):
    if not topic.endswith("/commands"):
        return count(self, topic)
    begin.append(time.monotonic())
    return count(self, topic) if begin[-1] > begin[0] + 2.5 else 0
Node.count_publishers = slowly
"""
"""Preamble of a controller to which ROS shows no other one for 2.5 s, as it may take that long.

Without a wait for discovery both controllers would send torque in that time.
"""


@pytest.fixture
def source(probe: Probe) -> Source:
    return probe.stream(resting())


@pytest.fixture
def pair(bring_up: BringUp) -> Iterator[list[Process]]:
    """Yield two controllers of one arm that start at once.

    They are ended in order: ROS would list killed ones for 20 s.
    """
    processes = [
        bring_up.start(
            NODE, {**PARAMETERS, "discovery_time": room}, ["-r", f"__node:={name}"], SLOW
        )
        for name, room in ROOM.items()
    ]
    yield processes
    for process in processes:
        if process.is_running:
            process.end()


def holds(process: Process) -> bool:
    return ": mode hold" in process.output


@pytest.mark.usefixtures("source")
def test_of_two_that_start_at_once_one_holds_the_arm_until_it_ends(
    probe: Probe, pair: list[Process]
) -> None:
    """The other waits, and takes over after zero torque; never do both send."""
    commands = torques(probe)
    probe.wait(lambda: any(map(holds, pair)), "none starts")
    winner = int(not holds(pair[0]))
    first, second = pair[winner], pair[1 - winner]
    probe.wait(lambda: WAITS in second.output, "the other does not wait")
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.node.count_publishers(COMMANDS) == 1
    assert not holds(second)
    assert "safe torque" not in first.output
    first.end(signal.SIGINT)
    wait_for_torque(probe, commands, ZERO)
    assert not holds(second)
    probe.wait(lambda: holds(second), "the other does not take over")
    wait_for_torque(probe, commands, WEIGHT)
    assert "safe torque" not in second.output
