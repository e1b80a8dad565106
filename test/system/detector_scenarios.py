"""What a running contact detector must do; the numbers in brackets are those of the fault list.

It has the arm that ships with the package, and hears a :class:`~.probe.Source` that stands still.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.duration import Duration
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, frame_jacobian, frame_placement, gravity_torque
from rbd_control.estimation import DetectorParameters
from rbd_control.nodes.contact_messages import event_from_status
from rbd_control.nodes.messages import to_seconds
from rbd_control.simulation import arm7_urdf

from .probe import LATCHED, Heard, Probe, Report, Source, efforts

NODE = "contact_detector"
PARAMETERS = {
    "urdf": "arm7",
    "contact_threshold": 2.0,
    "tool_frame": "tool",
    "maximum_gap": 1.0,
    "repeated_time_at_rest": 3600.0,  # what the tests send repeats to the last digit
}
MODEL = Model.from_urdf(arm7_urdf())
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
FORCE = np.array([0.0, 25.0, 5.0])
PUSH = frame_jacobian(MODEL, POSTURE, "link_7")[3:].T @ FORCE
"""What 25 N on the last link are in the joints [N·m]."""
LINK_7, TOOL = (frame_placement(MODEL, POSTURE, name) for name in ("link_7", "tool"))
LINK_FORCE = FORCE @ LINK_7[:3, :3]
"""The same force along the axes of the last link [N]."""
TOOL_WRENCH = np.concatenate(
    [FORCE @ TOOL[:3, :3], np.cross(LINK_7[:3, 3] - TOOL[:3, 3], FORCE) @ TOOL[:3, :3]]
)
"""Force [N], and moment about the origin of the tool [N·m], along the axes of the tool."""


def resting() -> Source:
    """Return the arm standing still, torques measured exactly."""
    return Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv), gravity_torque(MODEL, POSTURE))


def touched(source: Source) -> None:
    """Let somebody push; the arm stands still all the same."""
    source.effort = gravity_torque(MODEL, POSTURE) - PUSH


def released(source: Source) -> None:
    source.effort = gravity_torque(MODEL, POSTURE)


def flag_and_torque(probe: Probe, source: Source) -> None:
    """A push raises the flag, its event has link and force, and its end lowers the flag."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    wrenches = probe.listen(WrenchStamped, f"{NODE}/external_wrench")
    _wait_for_flag(probe, contact, False)
    touched(source)
    _wait_for_flag(probe, contact, True)
    # A first-order residual at 50/s is within 0.1 % of its final value after 0.14 s.
    probe.wait(
        lambda: torques and np.allclose(efforts(torques), PUSH, atol=0.05),
        f"the residual does not become {PUSH}",
    )
    assert tuple(torques[-1].name) == MODEL.joint_names
    onset = probe.wait(lambda: _last_onset(events), "no onset was told of")
    assert onset.level == DiagnosticStatus.WARN
    # The little that is felt at the onset may leave several links.
    assert "link_7" in event_from_status(onset).candidates
    probe.wait(
        lambda: wrenches and np.allclose(force_of(wrenches[-1]), LINK_FORCE, atol=1.0), "no force"
    )
    probe.wait(lambda: wrenches[-1].header.frame_id == "link_7", "the wrong link")
    _tool_wrench_is_told(probe)
    released(source)
    _wait_for_flag(probe, contact, False)
    probe.wait(lambda: events[-1].status[0].level == DiagnosticStatus.OK, "no release")
    assert events[-1].status[0].hardware_id == "link_7"
    # Told again and again while it holds.
    count = len(contact)
    probe.wait(lambda: len(contact) > count + 10, "the flag is not repeated")


def _tool_wrench_is_told(probe: Probe) -> None:
    """The wrench is given at the tool and along its axes, with its covariance, and so is a zero."""
    wrenches = probe.listen(WrenchStamped, f"{NODE}/tool_wrench")
    covariances = probe.listen(Float64MultiArray, f"{NODE}/tool_wrench_covariance")
    # The prior damps it by less than a per cent.
    probe.wait(
        lambda: wrenches and np.allclose(wrench_of(wrenches[-1]), TOOL_WRENCH, atol=0.3),
        f"the wrench at the tool does not become {TOOL_WRENCH}",
    )
    assert wrenches[-1].header.frame_id == "tool"
    probe.wait(lambda: covariances, "no covariance")
    covariance = np.reshape(covariances[-1].data, (6, 6))
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12)
    # A tenth of the thresholds is the noise: 0.2 N·m with levers of some 0.5 m.
    deviation = np.sqrt(np.diagonal(covariance))
    assert (deviation[:3] < 5.0).all()
    assert (deviation[3:] < 1.0).all()
    report = probe.wait_for_report(
        NODE, lambda r: "tool wrench: frame" in r.values, "nothing is said of the tool wrench"
    )
    assert report.values["tool wrench: observable directions"] == "6 of 6"


def no_verdict_without_effort_or_velocity(probe: Probe, source: Source) -> None:
    """[2, 3] What is missing is never taken as zero: no verdict, which is silence."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    wrenches = probe.listen(WrenchStamped, f"{NODE}/tool_wrench")
    zeros, nans = np.zeros(MODEL.nv), np.full(MODEL.nv, nan)
    gravity = gravity_torque(MODEL, POSTURE)
    for velocity, effort, missing in (
        (zeros, (), "effort"),
        (zeros, nans, "effort"),
        (nans, gravity, "velocity"),
        ((), gravity, "velocity"),
    ):
        _wait_for_flag(probe, contact, False)
        probe.wait(lambda: wrenches, "no wrench at the tool")
        source.velocity, source.effort = velocity, effort
        probe.wait_for_report(
            NODE, lambda r, what=missing: f"no {what}" in r.message, f"a verdict without {missing}"
        )
        count, since = len(contact), to_seconds(probe.node.get_clock().now().to_msg())
        probe.report(NODE)
        assert len(contact) == count, f"a verdict without {missing}"
        # Earlier ones may still have been on their way.
        assert to_seconds(wrenches[-1].header.stamp) < since, f"a wrench without {missing}"
        source.velocity, source.effort = zeros, gravity


def unusable_messages_are_dropped(probe: Probe, source: Source) -> None:
    """[4, 5, 8, 9, 10, 11, 15] Dropped and counted, and the good ones go on being judged."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    _wait_for_flag(probe, contact, False)
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
    _wait_for_flag(probe, contact, True)
    released(source)


def absurd_efforts(probe: Probe, source: Source) -> None:
    """[5, 26, 53] One impossible number is dropped and counted: no flag, no event, no silence."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    _wait_for_flag(probe, contact, False)
    flags, count, residuals = len(contact), len(events), len(torques)
    before = probe.report(NODE).values
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
    """[25, 61] It is named and there is no verdict; nothing ends, and nothing is flagged."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    _wait_for_flag(probe, contact, False)
    flags = len(contact)
    gravity = gravity_torque(MODEL, POSTURE)
    for dead, says in (
        (np.arange(MODEL.nv) == 1, "joint_2 publishes no effort"),
        (np.ones(MODEL.nv, dtype=bool), "effort not measured"),
    ):
        source.effort = np.where(dead, 0.0, gravity)
        probe.wait_for_report(NODE, lambda r, says=says: says in r.message, f"not said: {says}")
        assert not any(flag.data for flag in contact[flags:])
        count = len(contact)
        probe.report(NODE)
        assert len(contact) == count, "a verdict without an effort"
    released(source)
    _wait_for_flag(probe, contact, False)
    assert not any(flag.data for flag in contact[flags:])


def absurd_parameters(probe: Probe, source: Source) -> None:
    """[25] They are refused, also beside one that is fine, and the verdict goes on."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    _wait_for_flag(probe, contact, False)
    # The source repeats its samples, which may be no fault here although the arm moves.
    assert _set(probe, repeated_time=3600.0).successful
    source.velocity = np.full(MODEL.nv, 1e-3)
    for name in ("friction_viscous", "friction_offset", "effort_gain", "rotor_inertia"):
        for value in (1e23, 1e80, 1e308):
            assert not _set(probe, friction_model="coulomb_viscous", **{name: value}).successful
        _wait_for_flag(probe, contact, False)
    source.velocity = np.zeros(MODEL.nv)
    assert _set(probe, repeated_time=DetectorParameters().repeated_time).successful
    _wait_for_flag(probe, contact, False)


def joints_by_name(probe: Probe, source: Source) -> None:
    """[6, 7] Another order and joints of a gripper change nothing."""
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    touched(source)
    for field in ("names", "position", "velocity", "effort"):
        extra = "finger" if field == "names" else 0.01
        setattr(source, field, [extra, *reversed(list(getattr(source, field)))])
    count = len(torques)
    probe.wait(
        lambda: len(torques) > count + 50 and np.allclose(efforts(torques), PUSH, atol=0.05),
        "joints are not taken by name",
    )


def parameters_change_as_a_whole(probe: Probe, source: Source) -> None:
    """[38] A bad change is refused with its reason, nothing of it stays, and the node lives on."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    for name, value, reason in (
        ("observer_gain", -1.0, "observer_gain"),
        ("observer_gain", nan, "finite"),
        ("contact_threshold", [1.0, 2.0], "7 joints"),
        ("friction_model", "magic", "choices"),
        ("urdf", "/another.urdf", "unconfigured"),
        ("contact_threshold", "high", "number"),
    ):
        answer = _set(probe, onset_debounce=0.5, **{name: value})
        assert not answer.successful
        assert reason in answer.reason
    # One of the refused changes would have made contact take half a second.
    touched(source)
    _wait_for_flag(probe, contact, True)
    released(source)
    _wait_for_flag(probe, contact, False)
    answer = _set(probe, contact_threshold=1000, collision_threshold=2000)
    assert answer.successful, answer.reason
    touched(source)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    probe.wait(lambda: np.allclose(efforts(torques), PUSH, atol=0.05), "no residual")
    assert not contact[-1].data
    assert _set(probe, contact_threshold=2.0).successful
    _wait_for_flag(probe, contact, True)
    released(source)


def live_parameters(probe: Probe, source: Source) -> None:
    """They take effect without a restart: an open contact and the verdict go on."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    _wait_for_flag(probe, contact, False)
    before = _last_onset(events)
    touched(source)
    _wait_for_flag(probe, contact, True)
    # The flag is raised first, and the release of the scenario before may still be on its way.
    first = probe.wait(
        lambda: (now := _last_onset(events)) != before and now, "no onset was told of"
    )
    flags, count = len(contact), len(events)
    assert _set(probe, observer="second_order", release_ratio=0.5).successful
    probe.wait(lambda: len(contact) > flags + 20, "the flag is not repeated")
    assert all(flag.data for flag in contact[flags:])
    assert len(events) == count, first
    released(source)
    _wait_for_flag(probe, contact, False)
    # What the hand now holds is no contact, once it is told of.
    loaded = MODEL.with_payload("link_7", 1.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    gravity = gravity_torque(loaded, POSTURE)
    source.effort = gravity
    _wait_for_flag(probe, contact, True)
    answer = _set(probe, payload_mass=1.5, payload_link="flange_7")
    assert not answer.successful
    assert "flange_7" in answer.reason
    assert _set(
        probe, payload_mass=1.5, payload_link="link_7", payload_com=[0.0, 0.0, 0.1]
    ).successful
    _wait_for_flag(probe, contact, False)
    probe.wait(lambda: np.allclose(efforts(torques), 0.0, atol=0.05), "the payload is felt")
    assert _set(probe, payload_mass=0.0, observer="momentum").successful
    released(source)
    _wait_for_flag(probe, contact, False)
    # Out of bounds: refused as a whole, with the bounds, and the verdict goes on.
    for name in ("friction_viscous", "friction_offset", "effort_gain", "friction_f2"):
        for value in (1e23, float("nan"), float("inf")):
            answer = _set(probe, release_ratio=0.6, **{name: value})
            assert not answer.successful
            assert name in answer.reason
            assert "at most" in answer.reason or "finite" in answer.reason
    kept = probe.call(
        GetParameters, f"{NODE}/get_parameters", GetParameters.Request(names=["release_ratio"])
    )
    assert kept.values[0].double_value == 0.5
    _wait_for_flag(probe, contact, False)


def settings_that_hear_nothing(probe: Probe, source: Source) -> None:
    """A threshold that no torque of the joint can reach is reported for as long as it is set."""
    assert _set(probe, contact_threshold=5000.0, collision_threshold=6000.0).successful
    probe.wait_for_report(
        NODE, lambda r: r.level == 1 and "contact_threshold" in r.message, "deafness is not told of"
    )
    assert _set(probe, contact_threshold=2.0, collision_threshold=40.0).successful
    probe.wait_for_report(NODE, lambda r: "contact_threshold" not in r.message, "told for ever")


def the_check_of_the_first_seconds(probe: Probe, source: Source) -> None:
    """It has a status of its own, with the rate and the weakest push among its lines."""
    check = f"{NODE}: check"
    report = probe.wait_for_report(check, lambda r: "rate" in r.values, "no check")
    assert "Hz" in report.values["rate"]
    assert "N on at link_" in report.values["weakest push"]
    assert probe.report(NODE).values["valid"] == "True"


def a_model_that_does_not_fit(probe: Probe, source: Source) -> None:
    """Efforts without gravity from the start on: refused, until they are declared or overruled."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    # Exactly zero on all joints would be no measurement at all.
    source.effort = np.full(MODEL.nv, 1e-3)
    assert probe.call(Trigger, f"{NODE}/reset").success

    def refused(report: Report) -> bool:
        return report.level == 2 and "this driver takes gravity off" in report.message

    report = probe.wait_for_report(NODE, refused, "is not refused")
    assert "where gravity alone asks for" in report.message
    assert report.values["valid"] == "False"
    count = len(contact)
    assert refused(probe.report(NODE)), "the refusal does not last"
    assert len(contact) == count, "a verdict while the kind of the efforts is refuted"
    assert _set(probe, check_effort_kind=False).successful
    probe.wait(lambda: len(contact) > count, "the parameter does not overrule the refusal")
    assert _set(probe, check_effort_kind=True, effort_kind="torque_without_gravity").successful
    probe.wait_for_report(NODE, lambda r: r.values["valid"] == "True", "refused for ever")
    released(source)
    assert _set(probe, effort_kind="torque").successful


def doubtful_data(probe: Probe, source: Source) -> None:
    """[13, 16, 17] Frozen data, a gap and a leap: no verdict, with its reason, and then again."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    _wait_for_flag(probe, contact, False)
    assert _set(probe, repeated_time_at_rest=0.3).successful
    probe.wait_for_report(NODE, lambda r: "repeated" in r.message, "frozen data are believed")
    assert _set(probe, repeated_time_at_rest=3600.0).successful
    _wait_for_flag(probe, contact, False)
    source.on = False
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "nothing missed")
    probe.report(NODE)  # what was on its way has come
    count = len(contact)
    probe.report(NODE)
    assert len(contact) == count, "a verdict from nothing"
    source.on = True
    _wait_for_flag(probe, contact, False)
    leap = POSTURE + np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    before = int(probe.report(NODE).values.get("without verdict: implausible jump", 0))

    def leapt() -> bool:
        source.position = leap if source.position is not leap else POSTURE
        after = int(probe.report(NODE).values.get("without verdict: implausible jump", 0))
        return after > before

    probe.wait(leapt, "a leap of 3 rad in 5 ms is believed")
    source.position = POSTURE
    _wait_for_flag(probe, contact, False)


def bursts(probe: Probe, source: Source) -> None:
    """[18] Ten thousand a second for a moment: the newest is answered soon after, none waits."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    _wait_for_flag(probe, contact, False)
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
    _wait_for_flag(probe, contact, False)


def publishers_come_and_go(probe: Probe, source: Source) -> None:
    """[20, 21] A second publisher is reported; after a restart of the only one it goes on."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    _wait_for_flag(probe, contact, False)
    before = int(probe.report(NODE).values["publishers"])
    second = probe.node.create_publisher(JointState, "joint_states", 50)
    probe.wait_for_report(
        NODE, lambda r: f"{before + 1} publishers" in r.message, "two are as good as one"
    )
    source.on = False
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "nothing missed")
    probe.node.destroy_publisher(source.publishers.pop())
    source.publishers.append(second)
    source.on = True
    _wait_for_flag(probe, contact, False)
    probe.wait_for_report(
        NODE, lambda r: r.values["publishers"] == str(before), "it is still counted"
    )


def a_clock_that_goes_back(probe: Probe, source: Source) -> None:
    """[25] The sender's clock is set back by a minute: the detector starts again."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    _wait_for_flag(probe, contact, False)
    count = len(events)  # of the scenarios before
    touched(source)
    _wait_for_flag(probe, contact, True)
    source.shift = -60.0
    released(source)
    report = probe.wait_for_report(
        NODE, lambda r: int(r.values["clock jumps"]) > 0, "old stamps are dropped for ever"
    )
    assert report.values["state"] == "active"
    _wait_for_flag(probe, contact, False)
    # The onset may have been before anybody knew of the listener.
    probe.wait(
        lambda: len(events) > count and events[-1].status[0].level == DiagnosticStatus.OK,
        "no release",
    )
    told = event_from_status(events[-1].status[0])
    assert told.phase == "release"
    assert 0.0 <= told.duration < 60.0
    touched(source)
    _wait_for_flag(probe, contact, True)
    source.shift = 0.0  # [26] forward by a minute: a gap like any other
    released(source)
    _wait_for_flag(probe, contact, False)


def tare_and_reset(probe: Probe, source: Source) -> None:
    """A tare subtracts the present residual; a reset restarts the observer."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    _wait_for_flag(probe, contact, False)
    bias = np.full(MODEL.nv, 0.7)
    assert probe.call(Trigger, f"{NODE}/reset").success
    source.effort = gravity_torque(MODEL, POSTURE) - bias
    probe.wait(lambda: np.allclose(efforts(torques), bias, atol=0.05), "no bias to see")

    assert "cannot tare" in probe.call(Trigger, f"{NODE}/tare").message

    def tared() -> bool:
        # A second has to be averaged, and what is left of the time before the bias tared again.
        answer = probe.call(Trigger, f"{NODE}/tare")
        if not answer.success:
            return False
        _wait_for_flag(probe, contact, False)
        return bool(np.allclose(efforts(torques), 0.0, atol=0.05))

    probe.wait(tared, "the tare takes nothing off")
    released(source)
    assert probe.call(Trigger, f"{NODE}/reset").success


def _set(probe: Probe, **changes: object) -> Any:
    request = SetParametersAtomically.Request()
    request.parameters = [
        Parameter(name, value=value).to_parameter_msg() for name, value in changes.items()
    ]
    service = f"{NODE}/set_parameters_atomically"
    return probe.call(SetParametersAtomically, service, request).result


def _wait_for_flag(probe: Probe, contact: Heard, flag: bool) -> None:
    count = len(contact)
    probe.wait(lambda: len(contact) > count and contact[-1].data == flag, f"contact is not {flag}")


def _last_onset(events: Heard) -> DiagnosticStatus | None:
    """Return the status of the last received onset."""
    told = [message.status[0] for message in events]
    onsets = [status for status in told if event_from_status(status).phase == "onset"]
    return onsets[-1] if onsets else None


def force_of(message: WrenchStamped) -> list[float]:
    force = message.wrench.force
    return [force.x, force.y, force.z]


def wrench_of(message: WrenchStamped) -> list[float]:
    """Force, then torque."""
    torque = message.wrench.torque
    return [*force_of(message), torque.x, torque.y, torque.z]
