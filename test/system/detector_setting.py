"""Setting of the detector's tests: the arm that ships with the package, at rest and pushed.

Its joint states come from a :class:`~.probe.Source` that stands still.
"""

from __future__ import annotations

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from rbd_control.dynamics import Model, frame_jacobian, frame_placement, gravity_torque
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.simulation import arm7_urdf

from .probe import LATCHED, Heard, Probe, Source, efforts

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
    wait_for_flag(probe, contact, False)
    touched(source)
    wait_for_flag(probe, contact, True)
    # A first-order residual at 50/s is within 0.1 % of its final value after 0.14 s.
    probe.wait(
        lambda: torques and np.allclose(efforts(torques), PUSH, atol=0.05),
        f"the residual does not become {PUSH}",
    )
    assert tuple(torques[-1].name) == MODEL.joint_names
    onset = probe.wait(lambda: last_onset(events), "no onset was told of")
    assert onset.level == DiagnosticStatus.WARN
    # The little that is felt at the onset may leave several links.
    assert "link_7" in event_from_status(onset).candidates
    probe.wait(
        lambda: wrenches and np.allclose(force_of(wrenches[-1]), LINK_FORCE, atol=1.0), "no force"
    )
    probe.wait(lambda: wrenches[-1].header.frame_id == "link_7", "the wrong link")
    _tool_wrench_is_told(probe)
    released(source)
    wait_for_flag(probe, contact, False)
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


def wait_for_flag(probe: Probe, contact: Heard, flag: bool) -> None:
    count = len(contact)
    probe.wait(lambda: len(contact) > count and contact[-1].data == flag, f"contact is not {flag}")


def listen_without_contact(probe: Probe) -> Heard:
    """Subscribe to the contact flag; wait until the detector reports no contact."""
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    wait_for_flag(probe, contact, False)
    return contact


def last_onset(events: Heard) -> DiagnosticStatus | None:
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
