"""A controller whose reaction needs a contact detector that is missing, or cannot be received.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lifecycle_msgs.srv import GetState
from std_msgs.msg import Bool, Float64MultiArray

from .bringup import BringUp, Process
from .controller_scenarios import COMMANDS, NODE, PARAMETERS, WEIGHT, resting, wait_for_torque
from .probe import Probe, Source

FLAG = "contact_detector/contact"
NEVER = "no contact detector has published yet"


@pytest.fixture(scope="module")
def source(probe: Probe) -> Source:
    return probe.stream(resting())


class Running:
    """Controllers that are ended in order, one after the other."""

    def __init__(self, bring_up: BringUp) -> None:
        self._bring_up = bring_up
        self._processes: list[Process] = []

    def start(self, **parameters: Any) -> Process:
        process = self._bring_up.start(NODE, {**PARAMETERS, **parameters})
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.end()
        self._processes.clear()


@pytest.fixture
def running(bring_up: BringUp) -> Iterator[Running]:
    running = Running(bring_up)
    yield running
    running.end()


@pytest.mark.usefixtures("source")
def test_a_detector_that_never_published(probe: Probe, running: Running) -> None:
    """[66] A warning at once, in the log and in the diagnostics; without a reaction, none."""
    process = running.start()
    report = probe.wait_for_report(NODE, lambda r: NEVER in r.message, "does not warn")
    assert report.level == 1
    assert NEVER in process.output.partition(": hold")[0]  # before it holds the arm
    running.end()
    quiet = running.start(contact_reaction="none")
    report = probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "hold", "not active")
    assert NEVER not in report.message
    assert NEVER not in quiet.output


@pytest.mark.usefixtures("source")
def test_require_detector(probe: Probe, running: Running) -> None:
    """[66] The controller waits for a verdict and sends no torque before it."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    running.start(require_detector=True)
    probe.wait_for_report(NODE, lambda r: NEVER in r.message, "does not wait for a detector")
    assert probe.call(GetState, f"{NODE}/get_state").current_state.label == "inactive"
    before = len(commands)
    probe.later_report(NODE)
    assert len(commands) == before
    with probe.repeated(FLAG, Bool(data=False)):
        probe.wait(lambda: len(commands) > before, "does not start with a detector")
        wait_for_torque(probe, commands, WEIGHT)
    probe.wait_for_report(
        NODE, lambda r: "no verdict about contact for" in r.message, "does not miss it"
    )


@pytest.mark.usefixtures("source")
def test_require_detector_and_an_activation_by_service(probe: Probe, running: Running) -> None:
    """[66] Its first attempt failed: no verdict was read while it waited for other controllers."""
    process = running.start(require_detector=True, autostart=False, discovery_time=1.0)

    assert probe.change(NODE, "configure")
    probe.wait_for_report(NODE, lambda r: r.values["publishers"] == "1", "hears no joint states")
    assert not probe.change(NODE, "activate")
    assert f"waiting for a verdict on /{FLAG}: {NEVER}" in process.output
    with probe.repeated(FLAG, Bool(data=False)) as publisher:
        probe.wait(publisher.get_subscription_count, "no subscription")
        told = probe.listen(Bool, FLAG)
        probe.wait(lambda: len(told) > 20, "no verdicts")
        assert probe.change(NODE, "activate"), process.output
