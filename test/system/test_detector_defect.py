"""A detector with an internal failure publishes nothing rather than its last verdict."""

from __future__ import annotations

import time

from std_msgs.msg import Bool

from . import detector_scenarios as scenarios
from .bringup import BringUp
from .probe import Probe

DEFECT = """
from rbd_control.estimation import ContactDetector

judge, count = ContactDetector.judge, [0]

def failing(self, *arguments):
    count[0] += 1
    if count[0] > 400:
        raise RuntimeError("injected")
    return judge(self, *arguments)

ContactDetector.judge = failing
"""


def test_a_failing_detector_falls_silent(bring_up: BringUp, probe: Probe) -> None:
    flag = probe.listen(Bool, f"{scenarios.NODE}/contact")
    process = bring_up.start(scenarios.NODE, scenarios.PARAMETERS, preamble=DEFECT)
    probe.stream(scenarios.resting())
    probe.wait(lambda: flag, "no verdict")
    probe.wait(lambda: "injected" in process.output, "nothing fails")

    def is_silent() -> bool:
        before = len(flag)
        time.sleep(0.5)  # twenty-five times the period at which a verdict is repeated
        return len(flag) == before

    probe.wait(is_silent, "the last verdict is repeated")
    assert process.is_running
