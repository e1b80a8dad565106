"""The parameter file that ``rbd-control calibrate`` writes: one arm, for all nodes and commands."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import numpy as np

from rbd_control.errors import ModelWarning, RbdControlError
from rbd_control.estimation import Calibration, DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.files.output_files import ScratchFolder, write_whole
from rbd_control.files.yaml_output import yaml_lines, yaml_text
from rbd_control.parameters import Parameters, Section, read_parameter_file
from rbd_control.playback.configuration import NODE, configured_robot
from rbd_control.robot.inertial_corrections import CORRECTIONS, without_payload
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import ARM7, Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.wording import printable


def _found(kind: type[Parameters]) -> tuple[str, ...]:
    """Return the names of the parameters that a calibration determines, by their declaration."""
    return tuple(item.name for item in fields(kind) if item.metadata["found_by_calibrate"])


_OF_THE_ARM = _found(RobotParameters)
"""Identified parameters of the arm for section ``/**``; those without effect are not written.

A parameter has no effect if it has its value in :data:`_NEUTRAL`, or if the friction model does not
use it.
"""

_OF_THE_DETECTOR = tuple(n for n in _found(DetectorParameters) if n not in _OF_THE_ARM)

REPLACED = frozenset((*RobotParameters.names(), *_OF_THE_DETECTOR))
"""Parameters of arm and detector whose values are those of the calibration, or its defaults."""

SHARED: Section = ("/**",)
"""Section of the arm, for every node."""
CONTROLLER: Section = ("passivity_controller",)
"""Section of the controller."""
NOTHING: Mapping[Section, Mapping[str, Any]] = MappingProxyType({})

FRICTION_SCALE = 0.1
"""Velocity scale of the controller's friction torque, for all joints [rad/s or m/s].

The controller adds friction at the reference velocity. With the scale that fits the measurement,
this torque would switch with the noise of the encoders while the arm is at rest.
"""


OWN_FRICTION = (
    "An arm that compensates joint friction by itself needs friction_compensated: true in the "
    "section passivity_controller, as config/franka.yaml and config/universal_robots.yaml have it. "
    "Otherwise the controller adds the friction of the arm file a second time."
)
"""Text about arms whose drives compensate the friction that a calibration identifies."""


def is_friction_doubtful(kept: Mapping[Section, Mapping[str, Any]]) -> bool:
    """Return whether a controller that reads the arm file may compensate friction a second time.

    It does not if the file keeps ``friction_compensated: true``.

    Args:
        kept: further parameters of the file, see :func:`arm_file`.
    """
    return not any(values.get("friction_compensated") is True for values in kept.values())


def alarms(calibration: Calibration) -> str:
    """Return the required false alarms per hour as text without "per hour": ``1 false alarm``."""
    rate = calibration.false_alarms_per_hour
    return f"{rate:g} false alarm{'' if rate == 1.0 else 's'}"


def write_arm_file(
    out: Path,
    calibration: Calibration,
    recordings: Sequence[Path],
    robot: Robot,
    locked: Mapping[str, float],
    kept: Mapping[Section, Mapping[str, Any]] = NOTHING,
) -> None:
    """Write the text from :func:`arm_file` to ``out``, replacing an existing file.

    Args:
        out: path of the parameter file.
        calibration: the identified parameters.
        recordings: the recordings of the calibration, named in a comment.
        robot: the arm without the identified parameters.
        locked: positions of locked joints in addition to the robot's parameters, by name
            [rad or m].
        kept: further parameters, see :func:`arm_file`.

    Raises:
        RbdControlError: naming ``out``, if no node could load the file; nothing is written then.
        OSError: naming ``out``, if it cannot be written.
    """
    calibrated = arm_file(calibration, recordings, robot, locked)
    text = arm_file(calibration, recordings, robot, locked, kept) if kept else calibrated
    with about(out):
        _refuse_unloadable(calibrated, text)
    write_whole(out, text.encode())


def arm_file(
    calibration: Calibration,
    recordings: Sequence[Path],
    robot: Robot,
    locked: Mapping[str, float],
    kept: Mapping[Section, Mapping[str, Any]] = NOTHING,
) -> str:
    """Return the text of the parameter file of a calibrated arm, as YAML for ROS 2.

    Section ``/**`` has the arm, for all nodes; the sections ``contact_detector`` and
    ``passivity_controller`` have the parameters of these nodes.

    Args:
        calibration: the identified parameters.
        recordings: the recordings of the calibration, named in a comment.
        robot: the arm without the identified parameters.
        locked: positions of locked joints in addition to the robot's parameters, by name
            [rad or m].
        kept: further parameters of all sections, which are written unchanged, see
            :func:`~rbd_control.cli.kept_parameters.kept_parameters`.
    """
    parameters = calibration.parameters
    of_detector, of_controller = dict(kept.get((NODE,), {})), kept.get(CONTROLLER, {})
    unchecked = [] if parameters.check_effort_kind else ["    check_effort_kind: false"]
    if unchecked:
        of_detector.pop("check_effort_kind", None)
    corrections = _of_the_arm_alone(calibration, robot)
    lines = [
        f"# Made by rbd-control calibrate from {calibration.duration:.0f} s of motion without",
        f"# contact: {', '.join(printable(path.name) for path in recordings)}.",
        f"# The thresholds imply {alarms(calibration)} per hour in motions like these.",
        *(f"# Warning: {printable(note)}" for note in calibration.notes),
        *_drives(calibration),
        "",
        "# The arm, for every node and command.",
        "/**:",
        "  ros__parameters:",
        *_description(robot, locked),
        *_entries(robot, RobotParameters(**corrections), _identified(corrections)),
        *_kept_lines(kept.get(SHARED, {})),
        "",
        "contact_detector:",
        "  ros__parameters:",
        *_entries(robot, parameters, _OF_THE_DETECTOR),
        *unchecked,
        *_kept_lines(of_detector),
        "",
        "passivity_controller:",
        "  ros__parameters:",
        *(_OWN_FRICTION if is_friction_doubtful(kept) else []),
        *([] if "friction_velocity_scale" in of_controller else _CONTROLLER_FRICTION),
        *_kept_lines(of_controller),
        *_other_sections(kept),
    ]
    return "\n".join(lines) + "\n"


_OWN_FRICTION = [f"    # {line}" for line in wrap(OWN_FRICTION, 94)]
_CONTROLLER_FRICTION = (
    "    # Wide, so that the friction torque does not switch while the arm stands still.",
    f"    friction_velocity_scale: [{FRICTION_SCALE}]  # [rad/s or m/s]",
)


def _kept_lines(values: Mapping[str, Any]) -> list[str]:
    """Return the lines of parameters that are kept in a section that calibrate writes, too."""
    return ["    # Kept from an existing arm file.", *yaml_lines(values, 4)] if values else []


def _other_sections(kept: Mapping[Section, Mapping[str, Any]]) -> list[str]:
    """Return the lines of the sections that calibrate itself does not write."""
    tree: dict[str, Any] = {}
    for place, values in kept.items():
        if place in (SHARED, (NODE,), CONTROLLER):
            continue
        body = tree
        for key in place:
            body = body.setdefault(key, {})
        body["ros__parameters"] = dict(values)
    return ["", "# Kept from an existing arm file.", *yaml_lines(tree, 0)] if tree else []


def _refuse_unloadable(calibrated: str, text: str) -> None:
    """Raise an error if arm and detector cannot be made from the text of a parameter file.

    Args:
        calibrated: the text without kept parameters. Only these make arm and detector: nodes accept
            kept ones that commands refuse, such as a controller's parameter in section ``/**``.
        text: the whole text, which must be readable.

    Raises:
        RbdControlError: with the reason.
    """
    scratch = ScratchFolder()
    file = scratch.path / "arm.yaml"
    file.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        try:
            for content in (text, calibrated):
                file.write_text(content, encoding="utf-8")
                read_parameter_file(file, NODE)
            configured_robot("", file, {})
        except RbdControlError as error:
            raise RbdControlError(
                f"is not written because it would not load ({error.message}); give the arm by the "
                "path of its URDF"
            ) from error


def _drives(calibration: Calibration) -> list[str]:
    """Return comments with the gains of the drives and their standard errors."""
    if not calibration.gains:
        return []
    return [
        "# Gains of the drives (effort_gain) with their standard errors:",
        *(f"#   {printable(drive.joint)}: {drive.text}" for drive in calibration.gains),
    ]


def _of_the_arm_alone(calibration: Calibration, robot: Robot) -> dict[str, Any]:
    """Return the parameters of :data:`_OF_THE_ARM`, with corrections that exclude the payload."""
    parameters = calibration.parameters
    values = {name: getattr(parameters, name) for name in _OF_THE_ARM}
    n = robot.model.nv
    found = np.column_stack([parameters.for_joints(name, n) for name in CORRECTIONS])
    alone = without_payload(found, robot.model, robot.description)
    return values | dict(zip(CORRECTIONS, map(tuple, alone.T), strict=True))


def _identified(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that have an effect, see :data:`_OF_THE_ARM`."""
    unused = set() if values["friction_model"] == "stribeck" else _STRIBECK
    return [
        name
        for name, value in values.items()
        if name not in unused and not (name in _NEUTRAL and all(x == _NEUTRAL[name] for x in value))
    ]


_STRIBECK = {"friction_stribeck", "friction_stribeck_velocity"}
_NEUTRAL = {**dict.fromkeys(CORRECTIONS, 0.0), "effort_gain": 1.0}


def _description(robot: Robot, locked: Mapping[str, float]) -> list[str]:
    """Return the lines with description, joints, mounting and payload of the arm."""
    arm = robot.parameters
    lines = []
    if arm.robot_description:
        lines.append(f"    robot_description: {yaml_text(arm.robot_description)}")
    if arm.urdf:
        urdf = arm.urdf if arm.urdf == ARM7 else os.path.abspath(arm.urdf)
        lines.append(f"    urdf: {yaml_text(urdf)}")
    lines.append(f"    joints: [{', '.join(map(yaml_text, robot.joints))}]")
    still = {**arm.locked, **locked}
    if still:
        lines += [
            f"    locked_joints: [{', '.join(map(yaml_text, still))}]",
            f"    locked_positions: {_list(tuple(still.values()))}  # [rad or m]",
        ]
    plain = RobotParameters()
    names = [
        name
        for name in ("gravity", *PayloadParameters.names())
        if getattr(arm, name) != getattr(plain, name)
    ]
    return lines + _entries(robot, arm, names)


def _entries(robot: Robot, parameters: Parameters, names: Iterable[str]) -> list[str]:
    """Return one line for each parameter, with its unit.

    Args:
        robot: the arm, whose ``joints`` the file names.
        parameters: per-joint values in the order of the model; the lines have the order of
            ``robot.joints``.
        names: the parameters to write.
    """
    parameters = robot.in_joint_order(parameters)
    units = {item.name: item.metadata["unit"] for item in fields(parameters)}
    lines = []
    for name in names:
        value = getattr(parameters, name)
        if isinstance(value, tuple):
            text = _list(value)
        else:
            text = yaml_text(value) if isinstance(value, str) else _digits(value)
        lines.append(f"    {name}: {text}" + (f"  # [{units[name]}]" if units[name] else ""))
    return lines


def _list(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(map(_digits, values)) + "]"


def _digits(value: float) -> str:
    return repr(float(f"{value:.5g}"))
