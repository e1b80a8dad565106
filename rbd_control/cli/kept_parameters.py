"""Parameters of existing arm files that ``rbd-control calibrate`` keeps in the file it writes."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from rbd_control.cli.arm_file import CONTROLLER, FRICTION_SCALE, REPLACED, SHARED
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.errors import ModelWarning, ParameterError
from rbd_control.estimation import DetectorParameters
from rbd_control.files.output_files import replaces_file
from rbd_control.parameters import Section, parameter_sections
from rbd_control.playback.configuration import NODE, YAML
from rbd_control.robot.friction import FrictionParameters
from rbd_control.robot.inertial_corrections import InertialCorrections
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot, robot_parameters
from rbd_control.simulation.simulation_parameters import SimulationParameters
from rbd_control.wording import listed

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
            f"options; they are replaced. To calibrate with them, give {out.name} as --urdf"
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
