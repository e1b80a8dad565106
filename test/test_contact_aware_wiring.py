"""Detector and controller in one process: an exception stays on its side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbd_control.nodes import contact_aware_controller
from rbd_control.ros.callback_errors import CallbackErrors


@pytest.mark.parametrize("what", ["contact flag", "contact force"])
def test_a_failing_reaction_leads_to_the_safe_torque(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the verdict of the detector instead, and the motion went on."""
    reactions: list[str] = []

    def fails(*_arguments: Any) -> None:
        raise ValueError("a defect")

    errors = CallbackErrors(lambda _line: None, lambda name, _reason: reactions.append(name))
    controller = SimpleNamespace(errors=errors, on_contact=fails, on_force=fails)
    detector = SimpleNamespace(
        flag=SimpleNamespace(),
        output=SimpleNamespace(),
        tap=None,
        report=None,
        repeat=None,
        gripper="finger",
    )
    monkeypatch.setattr(contact_aware_controller, "InProcessDetector", lambda: detector)
    monkeypatch.setattr(
        contact_aware_controller, "PassivityControllerNode", lambda **_options: controller
    )
    contact_aware_controller.make_nodes()
    assert controller.gripper == "finger", "read from the subscription of the controller"
    if what == "contact flag":
        detector.flag.on_verdict(True)
    else:
        detector.output.on_force("link_7", np.zeros(3))
    assert reactions == [what]
