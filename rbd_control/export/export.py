"""Export of a robot's dynamics to C files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model, forward_dynamics
from rbd_control.errors import InputError
from rbd_control.export.c_files import CFiles, Job, c_files
from rbd_control.export.functions import NAMES, Catalogue, ExportedFunction
from rbd_control.export.statements import (
    NumberFormat,
    checked_header_name,
    checked_prefix,
    default_prefix,
    identifier,
)
from rbd_control.robot.friction import NoFriction
from rbd_control.robot.robot import Robot

MOST_FOR_CHRISTOFFEL = 16
"""Number of degrees of freedom above which Christoffel symbols are exported only if requested."""

ALL = "all"
"""Argument that selects all links, or all functions."""


def export_c(
    robot: Robot | Model,
    *,
    prefix: str = "",
    functions: Sequence[str] = (),
    links: Sequence[str] = (),
    single: bool = False,
    header_name: str = "",
    notes: Sequence[str] = (),
) -> CFiles:
    """Return the dynamics of a robot as dependency-free C99: the texts of a header and a source.

    Args:
        robot: robot with corrections, payload and friction, or a model alone, without friction.
        prefix: prefix of all C names; by default made from the robot's name.
        functions: names from :data:`~rbd_control.export.functions.NAMES`, or ``all``. The default
            is all except friction for a robot without friction model, Christoffel symbols for a
            robot with more than :data:`MOST_FOR_CHRISTOFFEL` degrees of freedom, and forward
            dynamics for a robot with a joint that carries no mass; a note in the header names it.
        links: links whose placement and Jacobian are exported, or ``all``; by default the link
            that the last joint moves.
        single: whether the code computes with ``float`` instead of ``double``.
        header_name: file name of the header, in ASCII; by default the prefix with ``.h``.
        notes: further lines for the top of the header, such as the source of the description.

    Returns:
        The texts; :meth:`CFiles.write` writes them to files.

    Raises:
        InputError: for an unknown function or link, a prefix that is not a C identifier, a header
            name that ``#include`` does not accept, a robot without movable joints, or a requested
            forward dynamics of a robot with a joint that carries no mass.
    """
    model = robot.model if isinstance(robot, Robot) else robot
    if not model.joint_names:
        raise InputError(f"robot {model.name!r} has no movable joint: there is nothing to export")
    prefix = checked_prefix(prefix or default_prefix(model.name))
    friction = robot.friction if isinstance(robot, Robot) else NoFriction()
    chosen = _links(model, links)
    singular = _singular(model)
    names = _functions(model, functions, isinstance(friction, NoFriction), singular)
    left_out = [f"There is no forward_dynamics: {singular}."] if singular else []
    return c_files(
        Job(
            model=model,
            functions=_distinct(Catalogue(model, friction, chosen).functions(names)),
            prefix=prefix,
            form=NumberFormat(single),
            header_name=checked_header_name(header_name or f"{prefix}.h"),
            notes=[*notes, *_notes(robot), *left_out],
        )
    )


def _links(model: Model, links: Sequence[str]) -> tuple[str, ...]:
    if ALL in links:
        return model.link_names
    return tuple(dict.fromkeys(links)) or (
        model.joint_links[-1] if model.joint_links else model.root_link,
    )


def _singular(model: Model) -> str:
    """Return why the robot has no forward dynamics at any configuration; "" if it has.

    One configuration without special angles is tested.
    """
    still = np.zeros(model.nv)
    try:
        forward_dynamics(model, np.linspace(0.3, 0.9, model.nq), still, still)
    except InputError as error:
        return str(error).replace("at this configuration", "at every configuration")
    return ""


def _functions(
    model: Model, names: Sequence[str], frictionless: bool, singular: str
) -> tuple[str, ...]:
    if names:
        chosen = NAMES if ALL in names else tuple(dict.fromkeys(names))
        if singular and "forward_dynamics" in chosen:
            raise InputError(
                f"forward_dynamics cannot be exported: {singular}; name the functions without it"
            )
        return chosen
    left_out = {"friction_torque"} if frictionless else set()
    if singular:
        left_out.add("forward_dynamics")
    if model.nv > MOST_FOR_CHRISTOFFEL:
        left_out.add("christoffel_symbols")
    return tuple(name for name in NAMES if name not in left_out)


def _distinct(functions: Sequence[ExportedFunction]) -> list[ExportedFunction]:
    """Return the functions with distinct C names, also for links such as ``a-b`` and ``a_b``."""
    taken: set[str] = set()
    result = []
    for function in functions:
        own = identifier(function.name)
        names = (own, *(f"{own}_{k}" for k in range(2, len(functions) + 2)))
        name = next(each for each in names if each not in taken)
        taken.add(name)
        result.append(replace(function, name=name))
    return result


def _notes(robot: Robot | Model) -> list[str]:
    """Return lines about the robot for the header."""
    model = robot.model if isinstance(robot, Robot) else robot
    frame = "world axes" if model.nv > len(model.joint_names) else "the frame of the root link"
    lines = [f"Gravity: {_numbers(model.gravity)} m/s^2 in {frame}."]
    if isinstance(robot, Robot):
        arm = robot.parameters
        if arm.payload_mass:
            link = arm.payload_link or model.joint_links[-1]
            lines.append(
                f"Payload: {arm.payload_mass:g} kg on link {link}, centre of mass at "
                f"{_numbers(arm.payload_com)} m."
            )
        lines.append(f"Friction model: {arm.friction_model}.")
    return lines


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{float(x):g}" for x in values)
