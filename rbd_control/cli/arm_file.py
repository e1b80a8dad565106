"""The parameter file that ``rbd-control calibrate`` writes, and what it keeps of existing files."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import numpy as np

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.errors import ModelWarning, ParameterError, RbdControlError
from rbd_control.estimation import DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.files.output_files import ScratchFolder, replaces_file, write_whole
from rbd_control.files.xacro_files import with_file
from rbd_control.files.yaml_output import yaml_lines, yaml_text
from rbd_control.identification import Calibration
from rbd_control.parameters import Parameters, Section, parameter_sections, read_parameter_file
from rbd_control.playback.configuration import NODE, YAML, configured_robot
from rbd_control.robot.friction import MODELS, CoulombViscousFriction, FrictionParameters
from rbd_control.robot.inertial_corrections import CORRECTIONS, InertialCorrections, without_payload
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import ARM7, Robot, robot_parameters
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation.simulation_parameters import SimulationParameters
from rbd_control.wording import listed, printable


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
            :func:`kept_parameters`.
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
        *([f"# Do not use: {calibration.worse}."] if calibration.worse else []),
        *_circumstances(calibration),
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
                f"is not written because it would not load: {error.message}"
            ) from error


def _circumstances(calibration: Calibration) -> list[str]:
    """Return comments with the rate and kind of the efforts, and with what warms the joints."""
    known, change = calibration.parameters, calibration.friction_change
    return [
        f"# Joint states came at {known.calibrated_rate:.4g} Hz with efforts of the kind",
        f"# {known.effort_kind}; the joints moved for {calibration.moving:.0f} s. Motion before",
        "# the recordings is unknown; it warms the joints, which lowers their friction.",
        *([f"# Warning: {printable(change.text)}"] if change is not None else []),
    ]


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
    used = {*MODELS[values["friction_model"]].parameters.values()}
    used |= {*CoulombViscousFriction.parameters.values()}
    unused = {name for model in MODELS.values() for name in model.parameters.values()} - used
    return [
        name
        for name, value in values.items()
        if name not in unused and not (name in _NEUTRAL and all(x == _NEUTRAL[name] for x in value))
    ]


_NEUTRAL = {**dict.fromkeys(CORRECTIONS, 0.0), "effort_gain": 1.0, "effort_gain_error": 0.0}


def _description(robot: Robot, locked: Mapping[str, float]) -> list[str]:
    """Return the lines with description, joints, mounting and payload of the arm."""
    arm = robot.parameters
    lines = []
    if arm.robot_description:
        lines.append(f"    robot_description: {yaml_text(arm.robot_description)}")
    if arm.urdf:
        urdf = arm.urdf if arm.urdf == ARM7 else with_file(arm.urdf, os.path.abspath)
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


Sections = dict[Section, dict[str, Any]]

_READ: tuple[Section, ...] = (SHARED, (NODE,), (f"/{NODE}",))
"""Sections of an arm file that calibrate reads, the strongest last."""

_LISTS = frozenset(
    item.name
    for kind in (ControllerParameters, DetectorParameters, SimulationParameters)
    for item in fields(kind)
    if item.metadata["per_joint"] or item.metadata["joint_matrix"]
)
"""Parameters with one value for each joint, or each pair of joints."""

_FORMER = ControllerParameters.former_names() | DetectorParameters.former_names()

_OF_THE_MODEL = {*FrictionParameters.names(), *InertialCorrections.names()}

_IDENTIFIED = {
    NODE: REPLACED & (_OF_THE_MODEL | {*DetectorParameters.names()}),
    "passivity_controller": _OF_THE_MODEL - {"friction_velocity_scale"},
}
"""Parameters by node that the node should have from the calibration."""


def kept_parameters(out: Path, urdf: str, robot: Robot, locked: Mapping[str, float]) -> Sections:
    """Return the parameters that the new arm file takes over from existing files.

    These are all parameters of the file that ``out`` names and of the arm file that ``urdf`` names,
    except those that calibrate writes itself. If both files have a parameter, the value in the file
    of ``urdf`` is taken. A ``ModelWarning`` names parameters whose values differ, values of the
    arm in ``out`` with which the calibration does not compute, and parameters of other sections
    that override identified ones.

    Args:
        out: path of the arm file to write; it may exist.
        urdf: path of the description, or of an arm file.
        robot: the arm to calibrate.
        locked: positions of locked joints in addition to the robot's parameters [rad or m].

    Returns:
        Values by name for each section; sections without any are left out.

    Raises:
        ParameterError: naming the file, if it is not a parameter file, or if it has values for
            each joint and the joints of ``robot`` are others or in another order.
    """
    given: Sections = parameter_sections(urdf) if urdf.endswith(YAML) else {}
    _refuse_other_joints(urdf, given, robot)
    existing: Sections = {}
    if not (given and out.exists() and os.path.samefile(out, urdf)):
        existing = existing_sections(out)
        _warn_of_another_arm(out, existing, robot, locked)
        _refuse_other_joints(str(out), existing, robot)
    kept = _united(_without_replaced(existing), _without_replaced(given), out)
    _warn_of_overrides(kept)
    return kept


def kept_in_words(kept: Sections) -> str:
    """Return the names of kept parameters with their sections as text."""
    names = [f"{'/'.join(place)}: {listed(values)}" for place, values in kept.items()]
    return f"kept from an existing file, without its comments: {'; '.join(names)}"


def existing_sections(out: Path) -> Sections:
    """Return the parameters of a file that will be replaced; empty if there is no file.

    Raises:
        ParameterError: naming the file, if it is not a parameter file, or its arm is impossible.
    """
    if not replaces_file(out):
        return {}
    try:
        sections = parameter_sections(out)
        robot_parameters(_effective(sections))
    except ParameterError as error:
        refused = ParameterError(
            f"is not overwritten, because its parameters cannot be kept ({error.message}); give "
            "another file as --out, or remove this one"
        )
        refused.path = str(out)
        raise refused from error
    return sections


def _warn_of_another_arm(
    out: Path, sections: Sections, robot: Robot, locked: Mapping[str, float]
) -> None:
    """Warn if a file that will be replaced has other values of the arm than the calibration."""
    values = _effective(sections)
    known = robot_parameters(values)
    used = robot.in_joint_order(robot.parameters)
    names = ["gravity", "effort_kind", *PayloadParameters.names()]
    if used.effort_kind != "current":
        names.append("effort_gain")
    others = [
        name
        for name in names
        if name in values and not _is_equal(getattr(known, name), getattr(used, name))
    ]
    still = {**used.locked, **locked}
    if not all(_is_equal(at, still.get(name)) for name, at in known.locked.items()):
        others.append("locked_joints")
    if others:
        text = (
            f"{out.name} has other values of {listed(others)} than the arm of --urdf and the "
            f"options; they are replaced. To calibrate with them, give {out.name} as --urdf, with "
            f"urdf: FILE in its section /**"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)


def _is_equal(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are equal; one value stands for all joints.

    Numbers are equal if they differ by rounding to the five digits that calibrate writes.
    """
    if isinstance(a, tuple) and isinstance(b, tuple) and a and b:
        size = max(len(a), len(b))
        pairs = [each * size if len(each) == 1 else each for each in (a, b)]
        return len(pairs[0]) == len(pairs[1]) and all(map(_is_equal, *pairs))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-9)
    return bool(a == b)


def _effective(sections: Sections) -> dict[str, Any]:
    """Return the values in force for calibrate."""
    values: dict[str, Any] = {}
    for place in _READ:
        values |= sections.get(place, {})
    return values


def _without_replaced(sections: Sections) -> Sections:
    """Return the sections without the parameters that calibrate writes, and without empty ones."""
    kept = {
        place: {name: v for name, v in values.items() if place not in _READ or name not in REPLACED}
        for place, values in sections.items()
    }
    of_controller = kept.get(CONTROLLER, {})
    if of_controller.get("friction_velocity_scale") == [FRICTION_SCALE]:
        del of_controller["friction_velocity_scale"]  # as calibrate writes it
    return {place: values for place, values in kept.items() if values}


def _united(existing: Sections, given: Sections, out: Path) -> Sections:
    """Return the parameters of both files; a ``ModelWarning`` names those whose values differ."""
    result = {place: dict(values) for place, values in existing.items()}
    differing: list[str] = []
    for place, values in given.items():
        known = {_FORMER.get(name, name): value for name, value in values.items()}
        for former in [each for each in result if _node(each) == _node(place)]:
            for name in [each for each in result[former] if _FORMER.get(each, each) in known]:
                if result[former].pop(name) != known[_FORMER.get(name, name)]:
                    differing.append(f"{name} ({_node(place)})")
        result.setdefault(place, {}).update(values)
    if differing:
        text = (
            f"{out.name} and the file given by --urdf have different values of "
            f"{listed(differing)}; the values of --urdf are written"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)
    return {place: values for place, values in result.items() if values}


def _node(place: Section) -> str:
    """Return the name of a section without the slash before it, which it may have or not."""
    return "/".join(place).lstrip("/")


def _refuse_other_joints(path: str, sections: Sections, robot: Robot) -> None:
    """Raise an error for values of each joint that do not fit the joints of the arm."""
    n = len(robot.joints)
    for place, values in _without_replaced(sections).items():
        if place not in _READ and "joints" in values:
            continue  # the node has joints of its own
        before = {**sections.get(SHARED, {}), **sections.get(place, {})}.get("joints")
        named = before if isinstance(before, list) and before else robot.model.joint_names
        same = tuple(named) == robot.joints
        misfits = [
            name
            for name, value in values.items()
            if name in _LISTS and isinstance(value, list) and len(value) > 1
            if not same or len(value) not in (n, n * n)
        ]
        if misfits:
            error = ParameterError(
                f"has a value of {listed(misfits)} for each joint ({_node(place)}), but not for "
                f"the joints {listed(robot.joints)} in this order; adapt the values and joints"
            )
            error.path = path
            raise error


def _warn_of_overrides(kept: Sections) -> None:
    """Warn of sections that calibrate does not read, but which override what it identifies."""
    said: list[str] = []
    for place, values in kept.items():
        identified = _IDENTIFIED.get(place[-1].rpartition("/")[2], frozenset())
        said += [f"{name} ({'/'.join(place)})" for name in values if name in identified]
    if said:
        text = (
            f"kept parameters override identified ones in their nodes: {listed(said)}; remove them "
            "to use the identified ones"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)
