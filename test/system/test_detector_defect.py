"""A detector with an internal failure publishes nothing rather than its last verdict."""

from __future__ import annotations

import time

import numpy as np
from std_msgs.msg import Bool

from . import detector_scenarios as scenarios
from .bringup import BringUp
from .probe import Probe

DEFECT = """
LAST = {last}
from rbd_control.estimation import ContactDetector

judge, count = ContactDetector.judge, [0]

def failing(self, *arguments):
    count[0] += 1
    if 400 < count[0] <= LAST:
        raise RuntimeError("injected")
    return judge(self, *arguments)

ContactDetector.judge = failing
"""
"""Preamble of a detector that fails with its samples 401 to ``last``."""


def test_a_failing_detector_falls_silent(bring_up: BringUp, probe: Probe) -> None:
    """[94] For as long as it fails."""
    flag = probe.listen(Bool, f"{scenarios.NODE}/contact")
    process = bring_up.start(
        scenarios.NODE, scenarios.PARAMETERS, preamble=DEFECT.format(last=10**9)
    )
    source = probe.stream(scenarios.resting())
    probe.wait(lambda: flag, "no verdict")
    probe.wait(lambda: "injected" in process.output, "nothing fails")

    def is_silent() -> bool:
        before = len(flag)
        time.sleep(0.5)  # twenty-five times the period at which a verdict is repeated
        return len(flag) == before

    probe.wait(is_silent, "the last verdict is repeated")
    assert process.is_running
    probe.end_stream(source)
    process.end()


def test_a_verdict_after_a_failure_is_a_new_one(bring_up: BringUp, probe: Probe) -> None:
    """[94] The detector restarts and settles before it gives a verdict again."""
    flag = probe.listen(Bool, f"{scenarios.NODE}/contact")
    begin = len(flag)
    parameters = {**scenarios.PARAMETERS, "settling_time": 1.0}
    process = bring_up.start(scenarios.NODE, parameters, preamble=DEFECT.format(last=401))
    probe.stream(scenarios.resting())
    probe.wait(lambda: "injected" in process.output, "nothing fails")
    probe.wait(lambda: np.diff(flag.times[begin:]).max(initial=0.0) > 0.9, "does not settle again")
    first = len(flag)
    probe.wait(lambda: len(flag) > first + 10, "gives no verdict again")
    assert not any(message.data for message in flag)
