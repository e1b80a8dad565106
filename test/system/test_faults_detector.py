"""Conditions that a running detector must report neither as contact nor as no contact.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from .bringup import BringUp, Process
from .detector_scenarios import MODEL, NODE, PARAMETERS, resting, touched
from .fault_setting import set_parameters
from .probe import LATCHED, Heard, Probe, Source, efforts

ABSURD = (500.0, 1e20, 1e30, 1e80, 1e308)
"""Efforts of joint_2 [N·m], whose limit is 180 N·m."""


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    return bring_up.start(NODE, PARAMETERS)


@pytest.fixture(scope="module")
def streamed(process: Process, probe: Probe) -> Source:
    return probe.stream(resting())


@pytest.fixture
def contact(probe: Probe) -> Heard:
    return probe.listen(Bool, f"{NODE}/contact")


@pytest.fixture
def source(streamed: Source, contact: Heard, probe: Probe) -> Source:
    """Return the joint states that the detector receives; it judges them to be free of contact."""
    vars(streamed).update(vars(resting()), publishers=streamed.publishers)
    wait_for_verdict(probe, contact, False)
    return streamed


def wait_for_verdict(probe: Probe, contact: Heard, flag: bool) -> None:
    count = len(contact)
    probe.wait(lambda: len(contact) > count and contact[-1].data == flag, f"contact is not {flag}")


@pytest.mark.parametrize("effort", ABSURD, ids=lambda effort: f"{effort:g}")
def test_one_absurd_effort_raises_no_flag(
    effort: float, probe: Probe, contact: Heard, source: Source, process: Process
) -> None:
    """[53, 67] The sample is not believed; the verdict is back within a second."""
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    wait_for_verdict(probe, contact, False)  # the touch of the case before has ended
    probe.wait(lambda: torques, "no residual")
    first = len(contact)
    message = source.message(probe.node.get_clock().now().to_msg())
    message.effort[1] = effort
    for _ in range(3):  # joint states are received best-effort: a message may be lost
        message.header.stamp = probe.node.get_clock().now().to_msg()
        probe.send("joint_states", message)
    wait_for_verdict(probe, contact, False)
    probe.later_report(NODE)
    wait_for_verdict(probe, contact, False)
    assert not any(message.data for message in contact[first:])
    assert np.isfinite(efforts(torques)).all()
    touched(source)
    wait_for_verdict(probe, contact, True)
    assert "Traceback" not in process.output


def test_efforts_that_stay_absurd_give_no_verdict(
    probe: Probe, contact: Heard, source: Source
) -> None:
    """[53, 67] For as long as they last, with the reason."""
    first = len(contact)
    effort = resting().effort
    source.effort = np.where(np.arange(MODEL.nv) == 1, 1e6, effort)
    report = probe.wait_for_report(
        NODE, lambda r: r.values.get("valid") == "False" and r.level > 0, "is believed"
    )
    assert "effort" in report.message
    assert not any(message.data for message in contact[first:])


@pytest.mark.parametrize("joints", ["all", "joint_2"])
def test_efforts_of_exactly_zero_are_not_measured(
    joints: str, probe: Probe, contact: Heard, source: Source, process: Process
) -> None:
    """[61] A loaded joint whose effort is always 0 publishes none: no verdict, naming it."""
    which = np.arange(MODEL.nv) == 1 if joints == "joint_2" else np.full(MODEL.nv, True)
    before = probe.report(NODE)
    source.effort = np.where(which, 0.0, resting().effort)
    assert probe.call(Trigger, f"{NODE}/reset").success
    report = probe.wait_for_report(
        NODE,
        lambda r: r.values.get("valid") == "False" and "effort" in r.message,
        f"efforts of zero are believed, after {before.message}",
    )
    assert joints == "all" or "joint_2" in report.message
    # Ten seconds of it used to end the process.
    assert "Traceback" not in process.output


def test_a_late_subscriber_receives_no_old_verdict(
    probe: Probe, contact: Heard, source: Source, bring_up: BringUp
) -> None:
    """[58] After joint states have ended, no subscriber receives a verdict."""
    touched(source)
    wait_for_verdict(probe, contact, True)
    source.on = False
    probe.wait_for_report(NODE, lambda r: r.values.get("valid") == "False", "nothing is missed")
    late = Probe(bring_up.domain)
    try:
        heard = late.listen(Bool, f"{NODE}/contact", LATCHED)
        topic = f"/{NODE}/contact"
        late.wait(lambda: late.node.count_publishers(topic), "does not find the detector")
        late.report(NODE)  # what is kept for late subscribers comes before this
        assert not heard
    finally:
        late.close()
        source.on = True


@pytest.mark.parametrize("raised", [False, True], ids=["no contact", "contact"])
def test_what_waited_during_a_pause_gives_no_verdict(
    raised: bool, probe: Probe, contact: Heard, source: Source, process: Process
) -> None:
    """[48] Joint states end while the process is stopped: afterwards no verdict is published.

    The stop may come while the node publishes a verdict, whose second message then follows.
    """
    stamped = probe.listen(DiagnosticArray, f"{NODE}/contact_stamped")
    if raised:
        touched(source)
    wait_for_verdict(probe, contact, raised)
    probe.wait(lambda: stamped, "no stamped verdict")
    process.pause()
    stopped = probe.node.get_clock().now()
    try:
        time.sleep(0.1)  # joint states arrive and wait
        source.on = False
        time.sleep(1.0)
        before = len(contact), len(stamped)
    finally:
        process.signal(signal.SIGCONT)
    probe.wait_for_report(NODE, lambda r: r.values.get("valid") == "False", "a verdict remains")
    time.sleep(0.5)
    late = stamped[before[1] :]
    assert all(Time.from_msg(verdict.header.stamp) < stopped for verdict in late)
    assert len(late) <= 1
    assert len(contact) - before[0] <= 1
    source.on = True
    wait_for_verdict(probe, contact, raised)


def test_joint_states_behind_many_others_give_no_verdict(
    probe: Probe, contact: Heard, source: Source
) -> None:
    """[48] A detector that falls behind says so: it runs, but what it judges is old.

    Joint states arrive faster than it can process them, until its queue is full.
    """
    wait_for_verdict(probe, contact, False)
    clock = probe.node.get_clock()

    def is_counted() -> bool:
        source.on = False
        for _ in range(5000):
            source.publishers[0].publish(source.message(clock.now().to_msg()))
        found = probe.report(NODE)
        source.on = True
        wait_for_verdict(probe, contact, False)
        return int(found.values["late"]) > 0

    probe.wait(is_counted, "joint states behind others count as new")


def test_no_tare_before_there_is_a_mean(bring_up: BringUp, probe: Probe, source: Source) -> None:
    """[60] Right after a reset or a start there is no mean residual to subtract."""
    bias = np.full(MODEL.nv, 0.7)
    source.effort = resting().effort - bias
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    probe.wait(lambda: torques and np.allclose(efforts(torques), bias, atol=0.05), "no bias to see")
    assert probe.call(Trigger, f"{NODE}/reset").success
    answer = probe.call(Trigger, f"{NODE}/tare")
    assert not answer.success
    assert answer.message

    def tared() -> bool:
        return bool(probe.call(Trigger, f"{NODE}/tare").success)

    probe.wait(tared, "cannot tare")
    probe.wait(lambda: np.allclose(efforts(torques), 0.0, atol=0.05), "the tare takes off less")
    assert probe.call(Trigger, f"{NODE}/reset").success


IMPOSSIBLE = {
    "friction_viscous": 1e23,
    "friction_offset": 1e23,
    "friction_f2": 1e308,
    "friction_stribeck": 1e308,
    "effort_gain": 1e30,
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_parameters_have_physical_bounds(
    name: str, probe: Probe, contact: Heard, source: Source
) -> None:
    """[78] A physically impossible value is refused, and the verdict continues."""
    answer = set_parameters(probe, NODE, **{name: IMPOSSIBLE[name]})
    assert not answer.successful
    assert name in answer.reason
    wait_for_verdict(probe, contact, False)
