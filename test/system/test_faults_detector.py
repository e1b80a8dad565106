"""Conditions that a running detector must report neither as contact nor as no contact.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from .bringup import BringUp, Process
from .detector_scenarios import MODEL, NODE, PARAMETERS, POSTURE, PUSH, resting, touched
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


@pytest.mark.parametrize(
    ("effort", "says"),
    [(1e6, "implausible effort on joint_2"), (1e30, "too large (effort of joint_2)")],
    ids=["1e+06", "1e+30"],
)
def test_efforts_that_stay_absurd_give_no_verdict(
    effort: float, says: str, probe: Probe, contact: Heard, source: Source
) -> None:
    """[53, 67] For as long as they last, with the reason; above 1e9 as if no message came."""
    first = len(contact)
    source.effort = np.where(np.arange(MODEL.nv) == 1, effort, resting().effort)
    report = probe.wait_for_report(
        NODE, lambda r: r.values.get("valid") == "False" and r.level > 0, "is believed"
    )
    assert says in report.message
    assert not any(message.data for message in contact[first:])
    probe.later_report(NODE)
    ended = len(contact)
    probe.later_report(NODE)
    assert len(contact) == ended, "a verdict is repeated"


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


SLOW = f"slow/{NODE}"
"""A detector that takes at least ``DURATION`` for each joint state of a burst."""

MOVED = POSTURE + 0.0005
"""Position in a burst, by which the detector recognizes it [rad]."""

DURATION = 0.01
"""Shortest time in which the slow detector processes a joint state of a burst [s]."""

BEFORE, PUSHED, AFTER = 200, 50, 50
"""Numbers of joint states in a burst: without push, with push, without push."""

STEP = 0.005
"""Time between the stamps of a burst [s]."""

SLOW_CLOCK = 2.0 * (BEFORE + PUSHED + AFTER) * STEP
"""Time by which the clock of the sender is slow, so that no stamp of a burst is in the future [s].

A constant delay does not make joint states late.
"""

SLOW_SAMPLES = f"""
import time
from rbd_control.nodes.contact_detector import ContactDetectorNode

judge = ContactDetectorNode.judge

def judge_slowly(self, sample, stamp):
    if sample.q[0] > {0.5 * (POSTURE[0] + MOVED[0])}:
        time.sleep({DURATION})
    judge(self, sample, stamp)

ContactDetectorNode.judge = judge_slowly
"""


def burst(begin: Time) -> list[JointState]:
    """Return joint states of which only some in the middle show a push.

    Args:
        begin: time before the first stamp.
    """
    messages = []
    for k in range(BEFORE + PUSHED + AFTER):
        source = resting()
        source.position = MOVED
        if BEFORE <= k < BEFORE + PUSHED:
            touched(source)
        messages.append(source.message((begin + Duration(seconds=(k + 1) * STEP)).to_msg()))
    return messages


def test_joint_states_behind_many_others_give_no_verdict(bring_up: BringUp, probe: Probe) -> None:
    """[48] A detector that falls behind says so: it runs, but what it judges is old.

    A push shows only in joint states that wait behind others for more than half of the time in
    which the detector processes the others.
    """
    # Reliable, so that all joint states before the push arrive.
    parameters = {**PARAMETERS, "best_effort": False}
    bring_up.start(NODE, parameters, ["-r", "__ns:=/slow"], preamble=SLOW_SAMPLES)
    contact = probe.listen(Bool, f"{SLOW}/contact")
    torques = probe.listen(JointState, f"{SLOW}/external_joint_torques")
    source = resting()
    source.shift = -SLOW_CLOCK
    probe.stream(source, "slow/joint_states")
    publisher = probe.node.create_publisher(JointState, "slow/joint_states", 1000)
    probe.wait(lambda: publisher.get_subscription_count() and torques, "no residual")
    first = 0

    def is_sent_at_once() -> bool:
        """Send a burst; return whether it was sent quickly enough for the push to wait."""
        nonlocal first
        wait_for_verdict(probe, contact, False)
        first, judged = len(contact), len(torques)
        with probe.stalled():
            source.on = False
        messages = burst(probe.node.get_clock().now() + Duration(seconds=source.shift))
        begin = time.monotonic()
        for message in messages:
            publisher.publish(message)
        took = time.monotonic() - begin
        last = messages[-1].header.stamp
        probe.wait(lambda: torques[-1].header.stamp == last, "the burst is not judged")
        assert any(np.allclose(message.effort, PUSH, atol=0.05) for message in torques[judged:])
        source.on = True
        wait_for_verdict(probe, contact, False)
        return took < 0.5 * BEFORE * DURATION

    probe.wait(is_sent_at_once, "the machine delays each burst")
    assert not any(message.data for message in contact[first:]), "a flag of late joint states"
    assert int(probe.report(SLOW).values["late"]) >= PUSHED
    source.on = False


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
