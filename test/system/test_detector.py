"""The contact detector as a process; numbers in brackets are the rows of ``docs/faults.md``.

The tests of the first detector run in this order. Its joint states stand still for every torque.
"""

from __future__ import annotations

import signal
import time
from functools import partial
from itertools import pairwise
from math import nan

import numpy as np
import pytest
from builtin_interfaces.msg import Time as Stamp
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from rbd_control.dynamics import gravity_torque
from rbd_control.estimation import ContactEvent
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.ros.messages import to_seconds, to_stamp

from .bringup import BringUp, Process
from .controller_setting import set_parameters
from .detector_setting import (
    MODEL,
    NODE,
    PARAMETERS,
    POSTURE,
    PUSH,
    flag_and_torque,
    listen_without_contact,
    released,
    resting,
    touched,
    wait_for_flag,
)
from .probe import LATCHED, Heard, Probe, Report, Source, efforts
from .test_controller import UNUSABLE

ERROR = 2
STEP = 0.005
"""Period of simulated joint states [s]."""


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    return bring_up.start(NODE, PARAMETERS)


@pytest.fixture(scope="module")
def streamed(probe: Probe, process: Process) -> Source:
    return probe.stream(resting())


@pytest.fixture
def source(streamed: Source) -> Source:
    """Return the joint states that the detector receives, at rest."""
    vars(streamed).update(vars(resting()), publishers=streamed.publishers)
    return streamed


def test_flag_event_and_wrench(probe: Probe, source: Source) -> None:
    flag_and_torque(probe, source)
    report = probe.wait_for_report(f"{NODE}: check", lambda r: "rate" in r.values, "no check")
    assert "N at link_" in report.values["weakest push"]


def test_no_verdict_without_effort_or_velocity(probe: Probe, source: Source) -> None:
    """What is missing is never taken as zero: no verdict, which is silence."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    wrenches = probe.listen(WrenchStamped, f"{NODE}/tool_wrench")
    gravity = gravity_torque(MODEL, POSTURE)
    for field, value, missing in (
        ("effort", (), "no effort"),
        ("effort", np.where(np.arange(MODEL.nv) == 1, 0.0, gravity), "joint_2 publishes no effort"),
        ("velocity", np.full(MODEL.nv, nan), "no velocity"),
    ):
        wait_for_flag(probe, contact, False)
        probe.wait(lambda: wrenches, "no wrench at the tool")
        good = getattr(source, field)
        setattr(source, field, value)
        probe.wait_for_report(NODE, partial(says, missing), f"a verdict with {missing}")
        probe.later_report(NODE)  # what was on its way has come
        first, since = len(contact), to_seconds(probe.node.get_clock().now().to_msg())
        probe.later_report(NODE)
        assert len(contact) == first, f"a verdict with {missing}"
        # Earlier ones may still have been on their way.
        assert to_seconds(wrenches[-1].header.stamp) < since, f"a wrench with {missing}"
        setattr(source, field, good)


def says(words: str, report: Report) -> bool:
    return words in report.message


def test_unusable_messages_are_dropped(probe: Probe, source: Source) -> None:
    """They are counted, and the good ones go on being judged."""
    contact = listen_without_contact(probe)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    probe.wait(lambda: np.abs(torques[-1].effort).max() < 0.01, "a residual remains")
    flags, residuals = len(contact), len(torques)
    lost = "without verdict: no effort"
    before = probe.report(NODE).values[lost]
    dropped = ("dropped: implausible effort", "dropped: no effort")
    counts = (*UNUSABLE, *dropped, "too large", "effort missing")

    def counted() -> bool:
        # Joint states are received best-effort: one may be lost.
        for change in UNUSABLE.values():
            message = source.message(probe.node.get_clock().now().to_msg())
            change(message)
            probe.send("joint_states", message)
        for effort in (500.0, 1e308, nan):
            message = source.message(probe.node.get_clock().now().to_msg())
            message.effort[1] = effort
            probe.send("joint_states", message)
            # Three unusable ones in a row would end the verdict.
            probe.send("joint_states", source.message(probe.node.get_clock().now().to_msg()))
        values = probe.report(NODE).values
        return all(int(values.get(key, 0)) >= 1 for key in counts)

    probe.wait(counted, f"not all counted: {counts}")
    assert probe.report(NODE).values["last missing"] == "effort of joint_2"
    assert probe.report(NODE).values[lost] == before
    assert not any(flag.data for flag in contact[flags:])
    assert all(np.abs(message.effort).max() < 0.05 for message in torques[residuals:])
    touched(source)
    wait_for_flag(probe, contact, True)


def test_parameters_change_as_a_whole(probe: Probe, source: Source) -> None:
    """A bad change is refused with its reason, nothing of it stays; a good one counts."""
    contact = listen_without_contact(probe)
    for name, value, reason in (
        ("friction_viscous", 1e23, "at most"),
        ("contact_threshold", [1.0, 2.0], "7 joints"),
        ("urdf", "/another.urdf", "unconfigured"),
    ):
        answer = set_parameters(probe, NODE, onset_debounce=0.5, **{name: value})
        assert not answer.successful
        assert reason in answer.reason
    # One of the refused changes would have made contact take half a second.
    touched(source)
    wait_for_flag(probe, contact, True)
    released(source)
    wait_for_flag(probe, contact, False)
    answer = set_parameters(probe, NODE, contact_threshold=1000, collision_threshold=2000)
    assert answer.successful, answer.reason
    touched(source)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    probe.wait(lambda: np.allclose(efforts(torques), PUSH, atol=0.05), "no residual")
    assert not contact[-1].data
    assert set_parameters(probe, NODE, contact_threshold=2.0).successful
    wait_for_flag(probe, contact, True)


def test_publishers_come_and_go(probe: Probe, source: Source) -> None:
    """A second publisher is reported; after a restart of the only one it goes on."""
    contact = listen_without_contact(probe)
    before = int(probe.report(NODE).values["publishers"])
    second = probe.node.create_publisher(JointState, "joint_states", 50)
    probe.wait_for_report(
        NODE, lambda r: f"{before + 1} publishers" in r.message, "two are as good as one"
    )
    source.on = False
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "nothing missed")
    probe.end_stream(source)
    source.publishers.append(second)
    source.on = True
    wait_for_flag(probe, contact, False)
    probe.wait_for_report(
        NODE, lambda r: r.values["publishers"] == str(before), "it is still counted"
    )


def test_a_clock_that_jumps(probe: Probe, source: Source) -> None:
    """At each jump an open contact ends, and a push that goes on is a new contact."""
    contact = listen_without_contact(probe)
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    touched(source)
    wait_for_flag(probe, contact, True)
    probe.wait(lambda: events_of(events)[-1].phase == "onset", "no onset")
    before = events_of(events)[-1]
    # Back by ten minutes, and then forward by ten minutes, which is a gap like any other.
    for shift in (-600.0, 0.0):
        step = shift - source.shift
        source.shift = shift
        found = probe.wait(
            partial(contact_after, events, before, step),
            f"no contact after the clock has jumped by {step:g} s",
        )
        assert found is not None
        onset, release = found
        assert release.phase == "release", "the contact goes on over the jump of the clock"
        assert release.duration is not None
        assert 0.0 <= release.duration < abs(step) / 2
        before = onset
    report = probe.report(NODE)
    assert int(report.values["clock jumps"]) == 1
    assert not [key for key in report.values if key.startswith("failures of")]


def events_of(heard: Heard) -> list[ContactEvent]:
    """Return the received events in their order."""
    return [event_from_status(message.status[0]) for message in heard]


def contact_after(
    heard: Heard, before: ContactEvent, step: float
) -> tuple[ContactEvent, ContactEvent] | None:
    """Return the first onset after a jump of the clock, and the event before it.

    Args:
        heard: the messages of the topic of events.
        before: an onset before the jump.
        step: the jump of the clock [s].
    """
    for last, event in pairwise(events_of(heard)):
        # A pause of the machine may end a contact as well, but no pause takes five minutes.
        is_after = event.id > before.id and (event.onset - before.onset) / step > 0.5
        if is_after and event.phase == "onset":
            return event, last
    return None


def test_tare_and_reset(probe: Probe, source: Source) -> None:
    """A tare subtracts the mean residual, once there is one; a reset clears the tare."""
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    bias = np.full(MODEL.nv, 0.7)
    assert probe.call(Trigger, f"{NODE}/reset").success
    source.effort = gravity_torque(MODEL, POSTURE) - bias
    probe.wait(lambda: np.allclose(efforts(torques), bias, atol=0.05), "no bias to see")
    assert "cannot tare" in probe.call(Trigger, f"{NODE}/tare").message
    # A second has to be averaged.
    probe.wait(lambda: probe.call(Trigger, f"{NODE}/tare").success, "cannot tare")
    probe.wait(lambda: np.abs(efforts(torques)).max() < 0.05, "the tare takes nothing off")
    assert probe.call(Trigger, f"{NODE}/reset").success
    probe.wait(lambda: np.allclose(efforts(torques), bias, atol=0.05), "the tare is not cleared")


def test_what_waited_during_a_pause_gives_no_verdict(
    probe: Probe, source: Source, process: Process
) -> None:
    """Joint states end while the process is stopped: afterwards no verdict is published.

    The stop may come while the node publishes a verdict, whose second message then follows.
    """
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    stamped = probe.listen(DiagnosticArray, f"{NODE}/contact_stamped")
    touched(source)
    wait_for_flag(probe, contact, True)
    probe.wait(lambda: stamped, "no stamped verdict")
    process.pause()
    stopped = probe.node.get_clock().now()
    try:
        time.sleep(0.1)  # joint states arrive and wait
        source.on = False
        time.sleep(0.5)
        before = len(contact), len(stamped)
    finally:
        process.signal(signal.SIGCONT)
    probe.wait_for_report(NODE, lambda r: r.values.get("valid") == "0", "a verdict remains")
    probe.later_report(NODE)
    late = stamped[before[1] :]
    assert all(Time.from_msg(verdict.header.stamp) < stopped for verdict in late)
    assert len(late) <= 1
    assert len(contact) - before[0] <= 1


# Detectors of their own ---------------------------------------------------------------------------


def test_simulated_time(bring_up: BringUp, probe: Probe) -> None:
    """No clock, a malformed one, one that stands still, and two jumps."""
    space = f"simulated/{NODE}"
    parameters = {**PARAMETERS, "use_sim_time": True}
    bring_up.start(NODE, parameters, ["-r", "__ns:=/simulated"])
    contact = probe.listen(Bool, f"{space}/contact", LATCHED)
    states = probe.node.create_publisher(JointState, "simulated/joint_states", 50)
    clock = probe.node.create_publisher(Clock, "/clock", 50)
    now, tells, runs = 100.0, False, True

    def tick() -> None:
        nonlocal now
        now += STEP * runs
        if tells:
            clock.publish(Clock(clock=to_stamp(now)))
        states.publish(resting().message(to_stamp(now)))

    def wait_for_verdict() -> None:
        first = len(contact)
        probe.wait(lambda: len(contact) > first, "no verdict")

    probe.every(STEP, tick)
    probe.wait_for_report(
        space, lambda r: r.level == ERROR and "/clock" in r.message, "no clock is as good as one"
    )

    def negative_is_counted() -> bool:
        # The queue of the clock holds one message; the next one would replace it.
        clock.publish(Clock(clock=Stamp(sec=-5)))
        return int(probe.report(space).values.get("malformed messages on /clock", 0)) > 0

    probe.wait(negative_is_counted, "a negative clock is not counted")
    assert not contact
    tells = True
    wait_for_verdict()
    runs = False
    probe.wait_for_report(
        space, lambda r: r.level == ERROR and "no usable" in r.message, "frozen time is believed"
    )
    probe.later_report(space)  # what was on its way has come
    first = len(contact)
    probe.later_report(space)
    assert len(contact) == first
    for jump in (-90.0, 500.0):
        now += jump
        runs = True
        wait_for_verdict()
        runs = False
    report = probe.report(space)
    assert (report.values["state"], report.values["clock jumps"]) == ("active", "1")


DEFECT = """
from rbd_control.estimation import ContactDetector

judge, count = ContactDetector.judge, [0]

def failing(self, *arguments):
    count[0] += 1
    if 200 < count[0] <= 300:
        raise RuntimeError("injected")
    return judge(self, *arguments)

ContactDetector.judge = failing
"""
"""Preamble of a detector that fails with its samples of a second."""


def test_a_failing_detector_falls_silent_and_settles_again(bring_up: BringUp, probe: Probe) -> None:
    """It publishes nothing rather than its last verdict, and then a new one."""
    settling = 1.0
    flag = probe.listen(Bool, f"failing/{NODE}/contact")
    parameters = {**PARAMETERS, "settling_time": settling}
    process = bring_up.start(NODE, parameters, ["-r", "__ns:=/failing"], preamble=DEFECT)
    probe.stream(resting(), "failing/joint_states")
    probe.wait(lambda: "injected" in process.output, "nothing fails")
    assert flag
    # A second of failures, and the settling time; verdicts are repeated every 20 ms.
    probe.wait(lambda: np.diff(flag.times).max() > 0.9 + settling, "the last verdict is repeated")
    wait_for_flag(probe, flag, False)
    assert not any(message.data for message in flag)
