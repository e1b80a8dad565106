"""Controllers that start together, or beside one that sends torque already.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from std_msgs.msg import Float64MultiArray

from .bringup import BringUp, Process
from .controller_scenarios import COMMANDS, NODE, PARAMETERS, WEIGHT, resting, wait_for_torque
from .probe import Probe, Source

pytestmark = pytest.mark.skipif(
    "RBD_LONG_TESTS" not in os.environ,
    reason="takes many minutes and has not been seen to pass; set RBD_LONG_TESTS=1 to run it",
)

ROOM = {"discovery_time": 5.0}
"""More than the default of 3.5 s, as a busy machine takes longer to discover a node."""


@pytest.fixture(scope="module")
def source(probe: Probe) -> Source:
    return probe.stream(resting())


@pytest.fixture
def stopping(bring_up: BringUp) -> Iterator[list[Process]]:
    """Controllers that are ended in order: ROS would list killed ones for 20 s."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.signal(signal.SIGTERM)
    for process in processes:
        assert process.wait() == 0


def start(
    bring_up: BringUp,
    stopping: list[Process],
    name: str,
    commands: str = COMMANDS,
    **parameters: float | bool,
) -> Process:
    process = bring_up.start(
        NODE,
        {**PARAMETERS, **ROOM, **parameters},
        ["-r", f"__node:={name}", "-r", f"{COMMANDS}:={commands}"],
    )
    stopping.append(process)
    return process


def holds(process: Process) -> bool:
    return ": hold" in process.output


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("attempt", range(5))
def test_two_that_start_at_once(
    bring_up: BringUp, probe: Probe, stopping: list[Process], attempt: int
) -> None:
    """[46] One holds the arm, the other waits for it to end; at no time do both send torque.

    Two arms at a time, so ten pairs in all.
    """
    pairs = []
    for arm in ("left", "right"):
        names = [f"{arm}_{attempt}_{k}" for k in range(2)]
        commands = f"{arm}_{attempt}/commands"
        pairs.append((names, [start(bring_up, stopping, name, commands) for name in names]))
    for names, both in pairs:
        probe.wait(lambda both=both: any(map(holds, both)), "none starts")
        winner = 0 if holds(both[0]) else 1
        probe.wait_for_report(
            names[1 - winner],
            lambda r: "whoever sends torque" in r.message,
            "the other does not wait",
        )
        assert [holds(process) for process in both] == [winner == 0, winner == 1]
        assert "safe torque" not in both[winner].output


@pytest.mark.usefixtures("source")
def test_the_one_that_waits_takes_over(
    bring_up: BringUp, probe: Probe, stopping: list[Process]
) -> None:
    """[45] After the first has ended with zero torque; never are there two publishers."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    first = start(bring_up, stopping, "first")
    probe.wait(lambda: holds(first), "does not start")
    second = start(bring_up, stopping, "second")
    probe.wait_for_report("second", lambda r: "whoever sends torque" in r.message, "does not wait")
    stopping.remove(first)
    first.signal(signal.SIGINT)
    assert first.wait() == 0
    wait_for_torque(probe, commands, np.zeros(len(WEIGHT)))
    probe.wait(lambda: holds(second), "does not take over")
    wait_for_torque(probe, commands, WEIGHT)
