"""A trajectory that is received during a stop is refused, even if it would be planned after it."""

from __future__ import annotations

import time

from std_srvs.srv import Trigger

from .bringup import BringUp
from .controller_scenarios import NODE, PARAMETERS, holds, resting, trajectory
from .probe import Probe

TOPIC = f"{NODE}/joint_trajectory"

SLOW_PLANNING = """
import time
from rbd_control.nodes import trajectory_input

read = trajectory_input.read_trajectory

def read_slowly(raw):
    print("planning begins", flush=True)
    time.sleep(2.0)
    return read(raw)

trajectory_input.read_trajectory = read_slowly
"""
"""Preamble of a controller that plans for so long that a stop ends in the meantime."""


def test_refused_at_receipt(bring_up: BringUp, probe: Probe) -> None:
    """It does not begin after ``~/resume``, unlike a trajectory that is received afterwards."""
    process = bring_up.start(NODE, PARAMETERS, preamble=SLOW_PLANNING)
    holds(probe, probe.stream(resting()))
    before = int(probe.report(NODE).values["trajectories refused"])
    assert probe.call(Trigger, f"{NODE}/hold").success
    probe.send(TOPIC, trajectory(0.02, seconds=60.0))
    answers = ("planning begins", "trajectory refused")
    process.wait_until(lambda: any(answer in process.output for answer in answers))
    assert probe.call(Trigger, f"{NODE}/resume").success
    end = time.monotonic() + 4.0
    while time.monotonic() < end:  # planning takes two seconds
        values = probe.report(NODE).values
        assert (values["mode"], values["goal"]) == ("hold", "none")
    assert "planning begins" not in process.output
    assert "trajectory refused: the arm stays in hold (held by request): resume" in process.output
    assert int(probe.report(NODE).values["trajectories refused"]) == before + 1
    probe.send(TOPIC, trajectory(0.02, seconds=60.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
