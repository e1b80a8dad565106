"""Changes of parameters of a running contact detector.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from math import nan

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from rbd_control.dynamics import gravity_torque
from rbd_control.estimation import DetectorParameters

from .detector_scenarios import (
    MODEL,
    NODE,
    POSTURE,
    PUSH,
    last_onset,
    listen_without_contact,
    released,
    set_parameters,
    touched,
    wait_for_flag,
)
from .probe import LATCHED, Probe, Report, Source, efforts


def absurd_parameters(probe: Probe, source: Source) -> None:
    """[78] They are refused, also beside one that is fine, and the verdict goes on."""
    contact = listen_without_contact(probe)
    # The source repeats its samples, which may be no fault here although the arm moves.
    assert set_parameters(probe, repeated_time=3600.0).successful
    source.velocity = np.full(MODEL.nv, 1e-3)
    for name in ("friction_viscous", "friction_offset", "effort_gain", "rotor_inertia"):
        for value in (1e23, 1e80, 1e308):
            assert not set_parameters(
                probe, friction_model="coulomb_viscous", **{name: value}
            ).successful
        wait_for_flag(probe, contact, False)
    source.velocity = np.zeros(MODEL.nv)
    assert set_parameters(probe, repeated_time=DetectorParameters().repeated_time).successful
    wait_for_flag(probe, contact, False)


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
        answer = set_parameters(probe, onset_debounce=0.5, **{name: value})
        assert not answer.successful
        assert reason in answer.reason
    # One of the refused changes would have made contact take half a second.
    touched(source)
    wait_for_flag(probe, contact, True)
    released(source)
    wait_for_flag(probe, contact, False)
    answer = set_parameters(probe, contact_threshold=1000, collision_threshold=2000)
    assert answer.successful, answer.reason
    touched(source)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    probe.wait(lambda: np.allclose(efforts(torques), PUSH, atol=0.05), "no residual")
    assert not contact[-1].data
    assert set_parameters(probe, contact_threshold=2.0).successful
    wait_for_flag(probe, contact, True)
    released(source)


def live_parameters(probe: Probe, source: Source) -> None:
    """They take effect without a restart: an open contact and the verdict go on."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    torques = probe.listen(JointState, f"{NODE}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{NODE}/events")
    wait_for_flag(probe, contact, False)
    before = last_onset(events)
    touched(source)
    wait_for_flag(probe, contact, True)
    # The flag is raised first, and the release of the scenario before may still be on its way.
    first = probe.wait(
        lambda: (now := last_onset(events)) != before and now, "no onset was told of"
    )
    flags, count = len(contact), len(events)
    assert set_parameters(probe, observer="second_order", release_ratio=0.5).successful
    probe.wait(lambda: len(contact) > flags + 20, "the flag is not repeated")
    assert all(flag.data for flag in contact[flags:])
    assert len(events) == count, first
    released(source)
    wait_for_flag(probe, contact, False)
    # What the hand now holds is no contact, once it is told of.
    loaded = MODEL.with_payload("link_7", 1.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    gravity = gravity_torque(loaded, POSTURE)
    source.effort = gravity
    wait_for_flag(probe, contact, True)
    answer = set_parameters(probe, payload_mass=1.5, payload_link="flange_7")
    assert not answer.successful
    assert "flange_7" in answer.reason
    assert set_parameters(
        probe, payload_mass=1.5, payload_link="link_7", payload_com=[0.0, 0.0, 0.1]
    ).successful
    wait_for_flag(probe, contact, False)
    probe.wait(lambda: np.allclose(efforts(torques), 0.0, atol=0.05), "the payload is felt")
    assert set_parameters(probe, payload_mass=0.0, observer="momentum").successful
    released(source)
    wait_for_flag(probe, contact, False)
    # Out of bounds: refused as a whole, with the bounds, and the verdict goes on.
    for name in ("friction_viscous", "friction_offset", "effort_gain", "friction_f2"):
        for value in (1e23, float("nan"), float("inf")):
            answer = set_parameters(probe, release_ratio=0.6, **{name: value})
            assert not answer.successful
            assert name in answer.reason
            assert "at most" in answer.reason or "finite" in answer.reason
    kept = probe.call(
        GetParameters, f"{NODE}/get_parameters", GetParameters.Request(names=["release_ratio"])
    )
    assert kept.values[0].double_value == 0.5
    wait_for_flag(probe, contact, False)


def settings_that_hear_nothing(probe: Probe, source: Source) -> None:
    """A threshold that no torque of the joint can reach is reported for as long as it is set."""
    assert set_parameters(probe, contact_threshold=5000.0, collision_threshold=6000.0).successful
    probe.wait_for_report(
        NODE, lambda r: r.level == 1 and "contact_threshold" in r.message, "deafness is not told of"
    )
    assert set_parameters(probe, contact_threshold=2.0, collision_threshold=40.0).successful
    probe.wait_for_report(NODE, lambda r: "contact_threshold" not in r.message, "told for ever")


def a_model_that_does_not_fit(probe: Probe, source: Source) -> None:
    """Efforts without gravity from the start on: refused, until they are declared or overruled."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    # Exactly zero on all joints would be no measurement at all.
    source.effort = np.full(MODEL.nv, 1e-3)
    assert probe.call(Trigger, f"{NODE}/reset").success

    def refused(report: Report) -> bool:
        return report.level == 2 and "this driver subtracts gravity" in report.message

    report = probe.wait_for_report(NODE, refused, "is not refused")
    assert "where gravity alone requires" in report.message
    assert report.values["valid"] == "False"
    count = len(contact)
    assert refused(probe.report(NODE)), "the refusal does not last"
    assert len(contact) == count, "a verdict while the kind of the efforts is refuted"
    assert set_parameters(probe, check_effort_kind=False).successful
    probe.wait(lambda: len(contact) > count, "the parameter does not overrule the refusal")
    assert set_parameters(
        probe, check_effort_kind=True, effort_kind="torque_without_gravity"
    ).successful
    probe.wait_for_report(NODE, lambda r: r.values["valid"] == "True", "refused for ever")
    released(source)
    assert set_parameters(probe, effort_kind="torque").successful
