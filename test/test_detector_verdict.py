"""The contact detector's verdict: its age, and the controller that needs one."""

from __future__ import annotations

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL, Driven, Loop, started

from rbd_control.control import Command, ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.control.detector_verdict import VERDICT_TIMEOUT, DetectorVerdict
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError

REQUIRED = ControllerParameters(require_detector=True, **SCRIPTED)


def see(controller: PassivityController, begin: float, end: float, verdict: object) -> Command:
    """Joint states at 100 Hz; and the same verdict at 50 Hz, unless it is None."""
    for k in range(round(100 * begin) + 1, round(100 * end) + 1):
        if verdict is not None and k % 2 == 0:
            controller.contact(bool(verdict), 0.01 * k)
        command = controller.update(0.01 * k, HOME, STILL)
    return command


def test_a_verdict_ends_with_silence() -> None:
    verdict = DetectorVerdict()
    assert not verdict.fresh(0.0)
    assert verdict.missing(0.0) == "no contact detector has published yet"
    assert verdict.update(True, 10.0)
    assert not verdict.update(True, 10.2)
    assert verdict.contact(10.2 + VERDICT_TIMEOUT)
    assert not verdict.contact(10.21 + VERDICT_TIMEOUT)
    assert verdict.missing(13.2) == "no verdict about contact for 3.0 s"
    assert verdict.update(True, 13.2)
    assert not verdict.update(False, 13.3)
    assert verdict.update(True, 13.4)


def test_a_verdict_before_the_start_counts(model: Model) -> None:
    """A flag that is up all the while is no new contact when the arm starts."""
    controller = PassivityController(model, ControllerParameters(**SCRIPTED))
    controller.contact(True, 9.9)
    controller.start(0.0, HOME, STILL, now=10.0)
    controller.contact(True, 10.0)
    assert controller.update(0.001, HOME, STILL, now=10.001).reason == ""
    controller.contact(False, 10.01)
    controller.contact(True, 10.02)
    assert controller.update(0.002, HOME, STILL, now=10.002).reason == "contact"


def test_no_start_without_a_verdict_that_is_required(model: Model) -> None:
    controller = PassivityController(model, REQUIRED)
    with pytest.raises(InputError, match="no contact detector has published yet"):
        controller.start(0.0, HOME, STILL)
    controller.contact(False, 0.0)
    with pytest.raises(InputError, match=r"no verdict about contact for 0\.6 s"):
        controller.start(0.6, HOME, STILL)
    assert controller.update(0.6, HOME, STILL).mode == "safe"
    controller.contact(False, 0.6)
    controller.start(0.7, HOME, STILL)
    assert controller.update(0.71, HOME, STILL).mode == "hold"


@pytest.mark.parametrize("by", ["samples", "watchdog"])
def test_the_arm_is_held_when_verdicts_stop_that_are_required(model: Model, by: str) -> None:
    controller = PassivityController(model, REQUIRED)
    controller.contact(False, 0.0)
    controller.start(0.0, HOME, STILL)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, (), (), 5.0)])
    assert see(controller, 0.0, 1.0, False).reason == ""
    command = see(controller, 1.0, 1.5, None)
    assert (command.mode, command.reason) == ("follow", "")
    if by == "watchdog":
        assert controller.silence(1.52) is None  # joint states are late, but not too late
        assert controller.mode == "hold"
    command = see(controller, 1.5, 1.7, None)
    assert command.mode == "hold"
    assert command.goal == "paused"
    assert command.reason == "no verdict about contact for 0.5 s"
    with pytest.raises(TrajectoryError, match="resume first"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, (), (), 5.0)])
    with pytest.raises(InputError, match="cannot resume: require_detector is true"):
        controller.resume()
    assert see(controller, 1.7, 1.8, False).mode == "hold"  # latched
    controller.resume()
    assert see(controller, 1.8, 1.9, False).mode == "follow"


def test_a_retreat_ends_with_the_verdicts_that_are_required(model: Model) -> None:
    """Nobody would tell of an obstacle on its way."""
    loop = Loop(
        model,
        require_detector=True,
        contact_reaction="retract",
        retract_distance=0.3,
        retract_time=1.5,
        verdict=False,
    )
    loop.controller.contact(True)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    command = loop.run(VERDICT_TIMEOUT - 0.01)
    assert np.abs(loop.arm.v).max() > 0.01
    assert "retracted" in command.reason
    command = loop.run(0.3)
    assert command.reason.startswith("no verdict about contact")
    assert np.abs(loop.arm.v).max() < 0.01


def test_nothing_is_learned_in_contact_or_while_the_detector_is_silent(model: Model) -> None:
    """Without a verdict the arm may be touched."""
    controller = started(
        model,
        ControllerParameters(adaptive=True, contact_reaction="none", **SCRIPTED),
    )
    learned = controller.law.adaptive
    assert learned is not None

    drive = Driven(controller)

    def move(seconds: float) -> float:
        # Slowly enough for the limits of torque: what they take is not learned either.
        drive.run(seconds, beside=1e-4)
        return learned.payload

    before = move(0.3)
    assert move(0.001) != before
    controller.contact(True)
    held = move(0.001)
    assert move(0.5) == held
    controller.contact(False)
    assert move(0.05) != held


def test_a_verdict_before_the_first_joint_state_needs_a_time(model: Model) -> None:
    """It was stored as infinitely old, and so never counted."""
    controller = PassivityController(model, ControllerParameters(**SCRIPTED))
    with pytest.raises(InputError, match="no joint state yet"):
        controller.contact(True)
    assert controller.contact(True, 0.0)
