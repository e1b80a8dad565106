"""The arm and the detector's parameters from the files that a command receives."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning, ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.recorded_joints import PositionRange, RecordedJoints
from rbd_control.playback.recording import Recording
from rbd_control.robot.robot import Robot, beside, described_by, robot_parameters
from rbd_control.robot.robot_parameters import RobotParameters

NODE = "contact_detector"
"""Node whose section of a parameter file the commands read."""
YAML = (".yaml", ".yml")
"""Suffixes of parameter files."""


class DescribedArm(NamedTuple):
    """An arm as described by the files that a command receives.

    Attributes:
        arm: parameters of the arm, which name or contain its URDF.
        config: the parameter file; None if none was given.
        values: all values by name that the parameter file has for the node ``contact_detector``,
            parameters of the arm included; empty without a file.
    """

    arm: RobotParameters
    config: Path | None
    values: Mapping[str, Any]


def described_arm(urdf: str, config: Path | None) -> DescribedArm:
    """Return the description of the arm in the files of a command.

    Args:
        urdf: path of the description, or of a parameter file that names it.
        config: parameter file; None for defaults.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    if config is None and urdf.endswith(YAML):
        config, urdf = Path(urdf), ""
    if config is None:
        return DescribedArm(described_by(named(urdf)), None, {})
    values = read_parameter_file(config, NODE)
    with about(config):
        arm = robot_parameters(values)
        arm = described_by(urdf, arm) if urdf else beside(arm, config)
        if not arm.urdf and not arm.robot_description:
            raise ParameterError("names no arm: give --urdf, or urdf in its section /**")
    return DescribedArm(arm, config, values)


def configured(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    recordings: Sequence[Recording] = (),
) -> tuple[Model, DetectorParameters]:
    """Return the model and the detector's parameters as the node creates them from these files.

    Args:
        urdf: path of the description, or of a parameter file that names it.
        config: parameter file; None for defaults.
        locked: positions of joints that do not move [rad or m].
        recordings: the recordings that determine the joints of the arm and the positions of the
            joints that do not move; without any, as for a node without joint states.

    Returns:
        The identified model, and the parameters with per-joint values in the order of the model.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    robot, parameters = configured_robot(urdf, config, locked, recordings)
    return robot.model, parameters


def configured_robot(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    recordings: Sequence[Recording] = (),
) -> tuple[Robot, DetectorParameters]:
    """Return the same as :func:`configured`, with the arm in place of its model.

    A ``ModelWarning`` names joints that are held at a fixed position.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    arm, config, values = described_arm(urdf, config)
    with about(config) if config else nullcontext():
        parameters = law_parameters(DetectorParameters, values)
        recorded = RecordedJoints(recordings)
        robot = Robot.of(
            arm, locked=locked, reported=recorded.positions, measured=recorded.measured
        )
        say_held(robot, recorded)
        say_locked(robot, recorded, locked)
        if config:
            parameters = robot.in_model_order(parameters)
            ContactDetector(robot.model, parameters)  # refuses parameters that do not fit the model
    return robot, parameters


def say_held(robot: Robot, recorded: RecordedJoints) -> None:
    """Warn about joints that the model holds at a fixed position, by a ``ModelWarning``.

    A second ``ModelWarning`` names those of these joints that move in the recordings.
    """
    if not robot.held:
        return
    warnings.warn(f"held joints: {robot.held_in_words}", ModelWarning, stacklevel=2)
    moving = recorded.moving(robot)
    if moving:
        text = (
            "held joints move in the recordings, and the model is wrong while they are elsewhere; "
            "use recordings in which they stand still, or name them in joints: "
            f"{positions_in_words(moving)}"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)


def say_locked(robot: Robot, recorded: RecordedJoints, locked: Mapping[str, float]) -> None:
    """Warn about locked joints that are elsewhere in the recordings, by a ``ModelWarning``.

    Args:
        robot: the arm.
        recorded: the joints of the recordings.
        locked: positions of locked joints in addition to the robot's parameters [rad or m].
    """
    elsewhere = recorded.locked_elsewhere(robot, locked)
    if elsewhere:
        text = (
            "locked joints are not at their locked positions in the recordings, and the model is "
            "wrong there; use recordings in which they stand there, or take them out of "
            f"locked_joints (--lock): {positions_in_words(elsewhere)}"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)


def positions_in_words(joints: Mapping[str, PositionRange]) -> str:
    """Return joints with their lowest and highest recorded positions as text."""
    return ", ".join(
        f"{name} between {of.lowest:.4g} and {of.highest:.4g}" for name, of in joints.items()
    )


def named(urdf: str) -> str:
    """Return ``urdf`` unchanged; raise an error if the user has named no robot description.

    Raises:
        ParameterError: if ``urdf`` is empty.
    """
    if not urdf:
        raise ParameterError(
            "no arm: give --urdf FILE, or --config with a parameter file that names it"
        )
    return urdf
