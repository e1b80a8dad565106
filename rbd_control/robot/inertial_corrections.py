"""Corrections of masses and centres of mass of a description, and rotor inertia of the motors.

Published masses are wrong by a few percent, and descriptions do not contain motors. The residual
cannot distinguish the resulting torques from contact. ``rbd-control calibrate`` identifies
corrections and rotor inertias; all nodes use the corrected model.

A motor of inertia ``I_R`` behind a gear of ratio ``n`` adds ``J = n² I_R`` to its joint's entry on
the diagonal of M: ``J v`` to the momentum, ``J a`` to inverse dynamics, nothing to C and g. This
usual approximation (E20 section 4.4.1, see docs/algorithms.md) assumes that the rotor turns in a
frame at rest. It neglects gyroscopic torques and the motion of the link that carries the rotor.
``Model.from_urdf(rotors=...)`` is exact, and needs gear ratio and inertia separately.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rbd_control.dynamics import Model, Rotor, with_rotors
from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter

CORRECTIONS = (
    "mass_correction",
    "com_correction_x",
    "com_correction_y",
    "com_correction_z",
    "rotor_inertia",
)
"""The five parameters of a joint [kg, m, m, m, kg·m² or kg].

Arrays of corrections, (nv, 5), have one column for each, in this order.
"""
ROTOR = 4
"""Column of the rotor inertia; the columns before it correct the body that the joint moves."""

_OF_THE_BODY = "of the body that the joint moves (its link and all links fixed to it)"


def _shift(axis: str) -> str:
    return f"Shift of the centre of mass {_OF_THE_BODY}, along {axis} of that link's frame"


@dataclass(frozen=True)
class InertialCorrections(Parameters):
    """Corrections of mass and centre of mass, and inertia of the rotor, one set for each joint."""

    HEADING = "Corrections of the description"

    mass_correction: tuple[float, ...] = parameter(
        (0.0,),
        f"Mass to add to that {_OF_THE_BODY}",
        unit="kg",
        lower=-1e3,
        upper=1e3,
        per_joint=True,
        live=False,
        found_by_calibrate=True,
    )
    com_correction_x: tuple[float, ...] = parameter(
        (0.0,),
        _shift("x"),
        unit="m",
        lower=-10.0,
        upper=10.0,
        per_joint=True,
        live=False,
        found_by_calibrate=True,
    )
    com_correction_y: tuple[float, ...] = parameter(
        (0.0,),
        _shift("y"),
        unit="m",
        lower=-10.0,
        upper=10.0,
        per_joint=True,
        live=False,
        found_by_calibrate=True,
    )
    com_correction_z: tuple[float, ...] = parameter(
        (0.0,),
        _shift("z"),
        unit="m",
        lower=-10.0,
        upper=10.0,
        per_joint=True,
        live=False,
        found_by_calibrate=True,
    )
    rotor_inertia: tuple[float, ...] = parameter(
        (0.0,),
        "Inertia of motor and gear, reflected to the joint: rotor inertia times the square of the "
        "gear ratio",
        unit="kg·m² or kg",
        lower=0.0,
        upper=1e3,
        per_joint=True,
        live=False,
        found_by_calibrate=True,
    )

    def corrected(self, model: Model) -> Model:
        """Return the model with these corrections; the model itself if all are zero.

        A body keeps its shape: the inertia about its centre of mass is proportional to its mass
        and moves with the centre, so every positive mass gives a physically possible body.

        Raises:
            ParameterError: for the wrong number of values, a body that would have no positive mass,
                or a rotor inertia if the model has rotors already.
        """
        corrections = np.column_stack([self.for_joints(name, model.nv) for name in CORRECTIONS])
        return corrected_model(model, corrections) if corrections.any() else model


def corrected_model(model: Model, corrections: np.ndarray) -> Model:
    """Return the model with ``corrections``, (nv, 5), columns as in :data:`CORRECTIONS`.

    Rows of ``corrections`` are in the order of the model.

    Raises:
        ParameterError: naming the joint, if the body to correct has or would have no positive mass,
            or if a rotor inertia is given and the model has rotors already.
    """
    model = _with_bodies(model, corrections[:, :ROTOR])
    inertia = corrections[model.nv - len(model.joint_names) :, ROTOR]
    rotors = {
        joint: Rotor(1.0, float(J))
        for joint, J in zip(model.joint_names, inertia, strict=True)
        if J != 0.0
    }
    if rotors and _has_rotors(model):
        raise ParameterError(
            f"rotor_inertia of joint {next(iter(rotors))!r} is given, but the model has rotors "
            f"already: leave it zero, or make the model without them"
        )
    return with_rotors(model, rotors, reflected=True) if rotors else model


def _has_rotors(model: Model) -> bool:
    return bool((model.arrays.rotor >= 0).any())


def _with_bodies(model: Model, corrections: np.ndarray) -> Model:
    if not corrections.any():
        return model
    arrays = model.arrays
    if model.floating_base:
        raise ParameterError("a model with a floating base has no inertial corrections")
    rows = model.dof_row
    old = arrays.mass[rows]
    mass = old + corrections[:, 0]
    for i in np.flatnonzero(corrections.any(axis=1) & ((mass <= 0.0) | (old <= 0.0))):
        name = model.joint_names[i - model.nv]
        raise ParameterError(
            f"mass_correction of joint {name!r} is {corrections[i, 0]:.3g} kg, but the body it "
            f"moves has {old[i]:.3g} kg: a body must have mass before and after"
        )
    safe = np.where(old > 0.0, old, 1.0)
    com = arrays.first_moment[rows] / safe[:, None]
    central = arrays.second_moment[rows] - old[:, None, None] * _squares(com)
    com = com + corrections[:, 1:]
    ratio = np.where(old > 0.0, mass / safe, 1.0)
    masses, first, second = (
        part.copy() for part in (arrays.mass, arrays.first_moment, arrays.second_moment)
    )
    masses[rows] = mass
    first[rows] = mass[:, None] * com
    second[rows] = ratio[:, None, None] * central + mass[:, None, None] * _squares(com)
    return replace(
        model, arrays=arrays._replace(mass=masses, first_moment=first, second_moment=second)
    )


def variations(model: Model) -> list[tuple[int, int, Model]]:
    """Return the derivatives of momentum and torques with respect to each correction, as models.

    Momentum and torque are linear in masses, first moments, inertias and rotor inertias. Each
    derivative is therefore the momentum or torque of a robot whose inertial parameters are the
    derivatives of the parameters, at the values of ``model``. Dynamics functions such as
    ``gravity_torque``, applied to that robot, return the derivative per unit of the correction.

    Returns:
        Triples of joint (its index in v), column of :data:`CORRECTIONS`, and that robot. Massless
        bodies have no entry; rotor inertias have none if the model has rotors.
    """
    arrays = model.arrays
    result = []
    for dof in np.flatnonzero(arrays.mass[model.dof_row] > 0.0):
        i = model.dof_row[dof]
        m, h = arrays.mass[i], arrays.first_moment[i]
        for column in range(ROTOR):
            mass, first, second = (
                np.zeros_like(part)
                for part in (arrays.mass, arrays.first_moment, arrays.second_moment)
            )
            if column == 0:
                mass[i], first[i], second[i] = 1.0, h / m, arrays.second_moment[i] / m
            else:
                first[i, column - 1] = m
                second[i, column - 1] += h
                second[i, :, column - 1] += h
            only = arrays._replace(mass=mass, first_moment=first, second_moment=second)
            result.append((int(dof), column, replace(model, arrays=only)))
    if not _has_rotors(model):
        nothing = {
            name: np.zeros_like(getattr(arrays, name))
            for name in ("mass", "first_moment", "second_moment")
        }
        bare = replace(model, arrays=arrays._replace(**nothing))
        for joint in model.joint_names:
            alone = with_rotors(bare, {joint: Rotor(1.0, 1.0)}, reflected=True)
            result.append((model.joint_index(joint), ROTOR, alone))
    return result


def _squares(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[:, :, None] * x[:, None, :])


def without_payload(corrections: np.ndarray, loaded: Model, alone: Model) -> np.ndarray:
    """Convert corrections identified with a payload to corrections of the arm without it.

    The corrected mass and first moment of each body, minus the payload, are preserved; mass
    corrections and rotor inertias are unchanged.

    Args:
        corrections: corrections of the loaded model, (nv, 5), in the order of :data:`CORRECTIONS`.
        loaded: the model with the payload, without corrections.
        alone: the model without the payload, without corrections.

    Returns:
        Corrections of the model without the payload, (nv, 5); unchanged for bodies without payload.
    """
    rows = loaded.dof_row
    mass, first = loaded.arrays.mass[rows], loaded.arrays.first_moment[rows]
    bare, bare_first = alone.arrays.mass[rows], alone.arrays.first_moment[rows]
    result = corrections.copy()
    for i in np.flatnonzero((mass != bare) & corrections[:, :ROTOR].any(axis=1)):
        corrected = bare[i] + corrections[i, 0]
        moment = (mass[i] + corrections[i, 0]) * (first[i] / mass[i] + corrections[i, 1:ROTOR])
        moment -= first[i] - bare_first[i]
        result[i, 1:ROTOR] = moment / corrected - bare_first[i] / bare[i]
    return result
