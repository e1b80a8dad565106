"""The equation of the drive currents as rows of a linear regression.

Without contact, the current ``c`` of a joint obeys::

    K c = y(delta) + J a + friction(v)                                        [N·m or N]

with the gain ``K`` of the drive, the torque ``y`` of the model, corrections ``delta`` of its
inertial parameters, and the inertia ``J`` of motor and gear, which turns with the joint and which
robot descriptions lack. ``y`` is linear in ``delta`` and in the ten inertial parameters of a
payload. All columns pass the low-pass filter of :mod:`~rbd_control.estimation.identification`.

The columns are noisy, because velocities are differentiated positions. Their noise is computed from
the velocity noise of the motion, which is estimated from fourth differences: the motion hardly
contributes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.estimation.identification import Columns, filtered_columns, filtered_external
from rbd_control.estimation.motion import Motion
from rbd_control.robot.inertial_corrections import ROTOR, variations

Array = NDArray[np.float64]

_FOURTH = 70.0
"""Variance of the fourth difference of white noise of unit variance."""
_TO_DEVIATION = 1.4826
"""Standard deviation of normal noise, divided by its median absolute value."""
MASS_ERROR = 0.05
"""Prior standard deviation of the mass of a body, as a fraction of its mass in the description."""
LEVER = 0.2
"""Prior standard deviation of the centre of mass of a body along each axis, per relative error of
its mass [m]: 10 mm for 5 %."""
PAYLOAD_PARAMETERS = 10
"""Number of inertial parameters of a payload: mass, three first and six second moments."""


@dataclass(frozen=True, eq=False)
class GainRows:
    """The rows of the regression for one load: n filtered samples of motions without contact.

    A correction changes the mass [kg] or the centre of mass along one axis [m] of one body.
    """

    current: Array
    """Filtered effort as published (n, nv)."""
    torque: Array
    """Torque (n, nv) of the model as described, payload not included [N·m or N]."""
    corrections: Array
    """Change (n, nv, P) of the torque per unit of each correction [N·m or N per kg or m]."""
    which: NDArray[np.int64]
    """(P, 2) for each correction the index in v of the joint that moves the body, and the column of
    :data:`~rbd_control.robot.inertial_corrections.CORRECTIONS`."""
    spread: Array
    """Prior standard deviation (P,) of each correction [kg or m]."""
    payload: Array
    """Change (n, nv, 10) of the torque per unit of each inertial parameter of a payload [N·m or N
    per kg, kg·m or kg·m²], in the order of :func:`unit_loads`."""
    acceleration: Array
    """Acceleration (n, nv) of each joint [rad/s² or m/s²]; zero for a model with rotors."""
    friction: Array
    """Friction (n, nv, shapes, 4) per unit of each coefficient: Coulomb, viscous, offset and excess
    near standstill, for each of :data:`~rbd_control.estimation.identification.SHAPES`."""
    noise: Array
    """Covariance (nv, N, N) of the noise of ``torque``, ``corrections``, ``payload`` and
    ``acceleration``, N = P + 12 columns in this order, in the products of their units."""


def gain_rows(
    motions: Sequence[Motion], model: Model, maximum_gap: float, mass_error: float = MASS_ERROR
) -> GainRows:
    """Return the rows of the regression that determines the drive gains, for one load.

    Args:
        motions: motions without contact, all with one load, ``tau`` the effort as published.
        model: the robot as described, without payload.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].
        mass_error: prior standard deviation of each mass, as a fraction of the mass. The prior
            standard deviation of each centre of mass is ``mass_error`` times :data:`LEVER` [m].

    Raises:
        RecordingError: when no part of the motions without gaps lasts ten time constants of the
            filter, which is 0.5 s, or more at sample rates below 67 Hz.
    """
    bodies = [change for change in variations(model) if change[1] != ROTOR]
    loads = [(0, 0, one) for one in unit_loads(model)]
    changes = [*bodies, *loads, *_unit_rotors(model)]
    still = [replace(m, tau=np.zeros_like(m.tau)) for m in motions]
    columns = filtered_columns(still, model, maximum_gap, changes)
    effort = columns.x - filtered_external(motions, model, maximum_gap)
    P, Q = len(bodies), len(bodies) + len(loads)
    return GainRows(
        current=effort,
        torque=columns.x,
        corrections=columns.inertia[:, :, :P],
        which=columns.which[:P],
        spread=np.where(
            columns.which[:P, 1] == 0,
            mass_error * model.arrays.mass[model.dof_row[columns.which[:P, 0]]],
            LEVER * mass_error,
        ),
        payload=columns.inertia[:, :, P:Q],
        acceleration=_diagonal(columns.inertia[:, :, Q:]),
        friction=columns.friction,
        noise=_noise(still, model, maximum_gap, columns, changes),
    )


def unit_loads(model: Model) -> list[Model]:
    """Return ten robots, each with one unit of one inertial parameter of the last body.

    All other inertial parameters are zero, so the torque of such a robot is the effect of one unit
    of this parameter of a payload. The order is mass, first moments x y z, second moments xx yy zz
    xy xz yz, about the origin and along the axes of the link that the last joint moves [kg, kg·m,
    kg·m²].
    """
    arrays, row = model.arrays, model.dof_row[-1]
    result = []
    for k in range(PAYLOAD_PARAMETERS):
        mass, first, second = (
            np.zeros_like(part) for part in (arrays.mass, arrays.first_moment, arrays.second_moment)
        )
        if k == 0:
            mass[row] = 1.0
        elif k < 4:
            first[row, k - 1] = 1.0
        else:
            i, j = _SECOND[k - 4]
            second[row, i, j] = second[row, j, i] = 1.0
        only = arrays._replace(mass=mass, first_moment=first, second_moment=second)
        result.append(replace(model, arrays=only))
    return result


_SECOND = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def _unit_rotors(model: Model) -> list[tuple[int, int, Model]]:
    """Return a robot with a single rotor of 1 kg·m² (or kg) for each degree of freedom.

    The result is empty for a model with rotors of its own, to which no rotors can be added.
    """
    return [change for change in variations(model) if change[1] == ROTOR]


def _diagonal(columns: Array) -> Array:
    """Return the torque (n, nv) of each joint's own rotor; zero if there are no rotors."""
    n, nv, count = columns.shape
    if count == 0:
        return np.zeros((n, nv))
    result = np.zeros((n, nv))
    result[:, nv - count :] = np.einsum("kii->ki", columns[:, nv - count :])
    return result


def _noise(
    motions: Sequence[Motion],
    model: Model,
    maximum_gap: float,
    clean: Columns,
    changes: Sequence[tuple[int, int, Model]],
) -> Array:
    """Return the covariance (nv, N, N) of the noise of the columns of :class:`GainRows`.

    Noise of the size of the velocity noise is added to the velocities, and everything is computed
    again: the difference is a sample of the noise of the columns.
    """
    rng = np.random.default_rng(0)
    noisy = [replace(m, v=m.v + rng.normal(size=m.v.shape) * velocity_noise(m.v)) for m in motions]
    columns = filtered_columns(noisy, model, maximum_gap, changes)
    rotors = sum(column == ROTOR for _, column, _ in changes)
    both = [_side_by_side(one, rotors) for one in (columns, clean)]
    difference = both[0] - both[1]
    return np.asarray(np.einsum("kia,kib->iab", difference, difference) / len(difference))


def _side_by_side(columns: Columns, rotors: int) -> Array:
    """Return torque, its changes and acceleration as (n, nv, N); the rotor changes are the last."""
    count = columns.inertia.shape[2] - rotors
    acceleration = _diagonal(columns.inertia[:, :, count:])
    return np.concatenate(
        [columns.x[..., None], columns.inertia[:, :, :count], acceleration[..., None]], axis=2
    )


def velocity_noise(v: Array) -> Array:
    """Return the standard deviation of white noise in sampled velocities, from fourth differences.

    Args:
        v: velocities at equally spaced times, (k, nv) [rad/s or m/s].

    Returns:
        Standard deviations, (nv,) [rad/s or m/s]; zero for fewer than five samples.
    """
    if len(v) < 5:
        return np.zeros(v.shape[1])
    fourth = np.diff(v, n=4, axis=0)
    return np.asarray(_TO_DEVIATION * np.median(np.abs(fourth), axis=0) / np.sqrt(_FOURTH))
