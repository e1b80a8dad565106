"""Preparation of a calibration from recordings: arm without identified parameters, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError, RecordingError
from rbd_control.estimation.calibrated_parameters import START, CalibratedParameters
from rbd_control.playback.configuration import named, say_held
from rbd_control.playback.recorded_joints import RecordedJoints
from rbd_control.playback.recording import Recording
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import DescriptionParameters, RobotParameters
from rbd_control.wording import shortened


@contextmanager
def physical(model: Model) -> Iterator[None]:
    """Convert a result outside the bounds of its parameter to an error about the efforts."""
    try:
        yield
    except ParameterError as error:
        which = re.sub(
            r"\[(\d+)\]",
            lambda found: f" of {shortened(model.joint_names[int(found[1]) % model.nv], 30)}",
            error.message,
        )
        raise RecordingError(
            f"an identified value is not physical: {which}; check sign and unit of its efforts"
        ) from error


def arm_to_calibrate(
    urdf: str, locked: Mapping[str, float], recordings: Sequence[Recording]
) -> Robot:
    """Return the arm of recordings without the parameters that the calibration identifies.

    Args:
        urdf: path of the description, or of a parameter file that names it.
        locked: positions of joints that do not move [rad or m].
        recordings: the recordings, which determine the joints of the arm and the positions of the
            joints that do not move.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    recorded = RecordedJoints(recordings)
    robot = Robot.load(
        named(urdf), locked=locked, reported=recorded.positions, measured=recorded.measured
    )
    say_held(robot, recorded)
    return uncorrected(robot)


def uncorrected(robot: Robot) -> Robot:
    """Return the arm without the corrections and the friction that the calibration identifies."""
    known = (*DescriptionParameters.names(), *PayloadParameters.names())
    return robot.with_parameters(
        RobotParameters(**{name: getattr(robot.parameters, name) for name in known})
    )


def starting_parameters(
    robot: Robot,
    *,
    observer: str,
    effort: str,
    effort_gain: tuple[float, ...],
    gain: float | None,
    trusted: bool,
) -> CalibratedParameters:
    """Return the initial parameters of a calibration, in the order of the model.

    Args:
        robot: the arm.
        observer: kind of observer.
        effort: kind of the recorded effort, see ``effort_kind``.
        effort_gain: torque per unit of effort; one number, or one per joint in the order of
            ``robot.joints``.
        gain: observer gain [1/s]; None if the calibration chooses it.
        trusted: whether to use the declared effort kind even if the efforts refute it.

    Raises:
        ParameterError: for another number of effort gains than one or the number of joints.
    """
    start = replace(
        START,
        observer=observer,
        effort_kind=effort,
        effort_gain=effort_gain,
        observer_gain=(gain or 50.0,),
        check_effort_kind=not trusted,
    )
    start.for_joints("effort_gain", robot.model.nv)
    return robot.in_model_order(start)
