"""Events as messages and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from builtin_interfaces.msg import Time

from rbd_control.estimation import ContactEvent
from rbd_control.nodes.contact_messages import event_from_status, event_message

ONSET = ContactEvent(
    id=3,
    phase="onset",
    level="contact",
    onset=9.0,
    onset_uncertainty=0.002,
    detected=9.012,
    release=None,
    joint="elbow",
    link="forearm",
    peak_torque=8.0,
    force=np.array([0.0, 3.0, -4.0]),
    candidates=("forearm", "wrist"),
    confidence=0.75,
    point=np.array([0.5, 0.25, 1.0]),
)
RELEASE = replace(
    ONSET, phase="release", level="collision", release=9.5, force=None, point=None, candidates=()
)


@pytest.mark.parametrize("event", [ONSET, RELEASE, replace(ONSET, link="", confidence=np.nan)])
def test_what_is_told_is_what_is_heard(event: ContactEvent) -> None:
    (status,) = event_message("detector", event, Time()).status
    assert event_from_status(status).to_json() == event.to_json()
    assert status.hardware_id == event.link
