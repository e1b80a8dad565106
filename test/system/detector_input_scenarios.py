"""Joint states that a running contact detector must drop or doubt.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.dynamics import gravity_torque
from rbd_control.estimation import ContactEvent
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.ros.messages import to_seconds

from .detector_scenarios import (
    MODEL,
    NODE,
    POSTURE,
    PUSH,
    listen_without_contact,
    released,
    set_parameters,
    touched,
    wait_for_flag,
)
from .probe import LATCHED, Heard, Probe, Report, Source


def unusable_messages_are_dropped(probe: Probe, source: Source) -> None:
    """[4, 5, 8, 9, 10, 11, 15] Dropped and counted, and the good ones go on being judged."""
    contact = listen_without_contact(probe)
    good = source.message(probe.node.get_clock().now().to_msg())
    names, position = list(good.name), list(good.position)
    unusable = {
        "empty": {"name": []},
        "lengths": {"position": position[:-1]},
        "duplicate name": {"name": [names[0], *names[:-1]]},
        "missing joint": {"name": [*names[:-1], "elbow"]},
        "not finite": {"position": [nan, *position[1:]]},
    }

    def send_all() -> None:
        stamp = probe.node.get_clock().now().to_msg()
        for changes in unusable.values():
            message = source.message(stamp)
            for field, value in changes.items():
                setattr(message, field, value)
            probe.send("joint_states", message)
        for seconds in (stamp.sec - 10, -5):
            message = source.message(stamp)
            message.header.stamp.sec = seconds
            probe.send("joint_states", message)

    counts = (*unusable, "old stamp", "negative stamp")

    def counted() -> bool:
        # Joint states are received best-effort: one may be lost.
        send_all()
        values = probe.report(NODE).values
        return all(int(values.get(key, 0)) >= 1 for key in counts)

    probe.wait(counted, f"not all counted: {counts}")
    touched(source)
    wait_for_flag(probe, contact, True)
    released(source)


def absurd_efforts(probe: Probe, source: Source) -> None:
    """[53, 67] One impossible number is dropped and counted: no flag, no event, no silence."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    wait_for_flag(probe, contact, False)
    # The residual of a push before fades after the flag has ended, and its release is on its way.
    probe.wait(lambda: torques and np.abs(torques[-1].effort).max() < 0.01, "a residual remains")
    before = probe.report(NODE).values
    flags, count, residuals = len(contact), len(events), len(torques)
    gravity = list(gravity_torque(MODEL, POSTURE))

    def send_all() -> None:
        stamp = probe.node.get_clock().now()
        for k, effort in enumerate((500.0, 1e6, 1e30, 1e80, 1e308, inf)):
            message = source.message((stamp + Duration(nanoseconds=k)).to_msg())
            message.effort = [gravity[0], effort, *gravity[2:]]
            probe.send("joint_states", message)

    def counted() -> bool:
        # Joint states are received best-effort, and may come after later ones of the source.
        send_all()
        values = probe.report(NODE).values
        keys = ("dropped: implausible effort", "too large")
        return all(int(values[key]) > int(before[key]) for key in keys)

    probe.wait(counted, "absurd efforts are not counted")
    assert not any(flag.data for flag in contact[flags:])
    assert len(events) == count
    assert all(np.abs(message.effort).max() < 0.05 for message in torques[residuals:])
    flags = len(contact)
    probe.wait(lambda: len(contact) > flags + 10, "the verdict is lost")


def a_joint_without_effort(probe: Probe, source: Source) -> None:
    """[61] It is named and there is no verdict; nothing ends, and nothing is flagged."""
    contact = listen_without_contact(probe)
    flags = len(contact)
    gravity = gravity_torque(MODEL, POSTURE)
    for dead, says in (
        (np.arange(MODEL.nv) == 1, "joint_2 publishes no effort"),
        (np.ones(MODEL.nv, dtype=bool), "effort not measured"),
    ):

        def is_said(report: Report, says: str = says) -> bool:
            return says in report.message

        source.effort = np.where(dead, 0.0, gravity)
        probe.wait_for_report(NODE, is_said, f"not said: {says}")
        assert not any(flag.data for flag in contact[flags:])
        probe.later_report(NODE)  # what was on its way has come
        count = len(contact)
        probe.later_report(NODE)
        assert len(contact) == count, "a verdict without an effort"
    released(source)
    wait_for_flag(probe, contact, False)
    assert not any(flag.data for flag in contact[flags:])


def doubtful_data(probe: Probe, source: Source) -> None:
    """[13, 16, 17, 19] Frozen data, a gap and a leap: no verdict, with the reason; then one."""
    contact = listen_without_contact(probe)
    assert set_parameters(probe, repeated_time_at_rest=0.3).successful
    probe.wait_for_report(NODE, lambda r: "repeated" in r.message, "frozen data are believed")
    assert set_parameters(probe, repeated_time_at_rest=3600.0).successful
    wait_for_flag(probe, contact, False)
    source.on = False
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "nothing missed")
    probe.later_report(NODE)  # what was on its way has come
    count = len(contact)
    probe.later_report(NODE)
    assert len(contact) == count, "a verdict from nothing"
    source.on = True
    wait_for_flag(probe, contact, False)
    leap = POSTURE + np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    before = int(probe.report(NODE).values.get("without verdict: implausible jump", 0))

    def leapt() -> bool:
        source.position = leap if source.position is not leap else POSTURE
        after = int(probe.report(NODE).values.get("without verdict: implausible jump", 0))
        return after > before

    probe.wait(leapt, "a leap of 3 rad in 5 ms is believed")
    source.position = POSTURE
    wait_for_flag(probe, contact, False)


class LiveEffort(Sequence[float]):
    """Effort that differs in every message, as a measured one does.

    Attributes:
        effort: mean of the effort, (nv,) [N·m].
    """

    def __init__(self, effort: np.ndarray) -> None:
        self.effort, self._noise = effort, 1e-6

    def __iter__(self) -> Iterator[float]:
        self._noise = -self._noise
        return iter(self.effort + self._noise)

    def __len__(self) -> int:
        return len(self.effort)

    def __getitem__(self, index: Any) -> Any:
        return self.effort[index]


def fresh_efforts_of_a_repeated_pose(probe: Probe, source: Source) -> None:
    """[124] At rest they are judged; in motion no verdict follows from them."""
    contact = listen_without_contact(probe)
    weight = gravity_torque(MODEL, POSTURE)
    source.effort = live = LiveEffort(weight)
    live.effort = weight - PUSH
    wait_for_flag(probe, contact, True)
    live.effort = weight
    wait_for_flag(probe, contact, False)
    flags = len(contact)
    # The last joint alone, whose momentum is small: a jump of its velocity looks like no contact.
    source.velocity = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.05])
    probe.wait_for_report(NODE, lambda r: "repeated" in r.message, "a frozen pose is believed")
    live.effort = weight - PUSH
    probe.later_report(NODE)
    assert "repeated" in probe.report(NODE).message
    assert not any(flag.data for flag in contact[flags:])
    source.velocity = np.zeros(MODEL.nv)
    wait_for_flag(probe, contact, True)


def bursts(probe: Probe, source: Source) -> None:
    """[18] Ten thousand a second for a moment: the newest is answered soon after, none waits."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    wait_for_flag(probe, contact, False)
    source.on = False
    sender = source.publishers[0]
    clock = probe.node.get_clock()
    for _ in range(3000):
        stamp = clock.now().to_msg()
        sender.publish(source.message(stamp))
    newest = to_seconds(stamp)
    # The last ones may be lost; what comes after them waits for all of them.
    source.on = True
    probe.wait(
        lambda: to_seconds(torques[-1].header.stamp) >= newest, "the newest is not answered", 5.0
    )
    wait_for_flag(probe, contact, False)


def publishers_come_and_go(probe: Probe, source: Source) -> None:
    """[20, 21] A second publisher is reported; after a restart of the only one it goes on."""
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


def a_clock_that_jumps(probe: Probe, source: Source) -> None:
    """[25, 26] At each jump an open contact ends, and a push that goes on is a new contact."""
    contact = listen_without_contact(probe)
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    jumps = int(probe.report(NODE).values["clock jumps"])

    def is_heard() -> bool:
        """Push the arm; the first event may be before the detector has found the listener."""
        touched(source)
        wait_for_flag(probe, contact, True)
        if events and events_of(events)[-1].phase == "onset":
            return True
        released(source)
        wait_for_flag(probe, contact, False)
        return False

    probe.wait(is_heard, "no onset")
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
    assert int(report.values["clock jumps"]) == jumps + 1
    assert report.values["state"] == "active"
    assert not [key for key in report.values if key.startswith("failures of")]
    released(source)
    wait_for_flag(probe, contact, False)


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
