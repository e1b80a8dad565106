"""Standard errors that ``calibrate`` will have after a motion, before the motion is made.

The unknowns are those of :mod:`~rbd_control.identification.regression` and of
:mod:`~rbd_control.identification.delays`: corrections of mass, centre of mass and rotor inertia,
Coulomb and viscous friction, offset and Stribeck excess, and the delay of the velocity. With the
filtered columns A_j of joint j, the noise s_j of its rows and the priors P::

    covariance = (sum over j of A_jᵀ A_j / s_j² + P^-1)^-1

The measure of a motion is the expected torque error on independent motions, relative to the noise::

    E = sqrt(mean over joints j and rows a of independent motions of (aᵀ covariance a / s_j²))

It is small if everything that matters for the torque is determined, whichever combinations of
masses no motion can separate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.identification.delays import UNKNOWN
from rbd_control.identification.motion import RecordedMotion
from rbd_control.identification.regression import (
    FILTER_GAIN,
    PER_RATE,
    SETTLING,
    filtered_columns,
    filtered_parts,
    information,
)
from rbd_control.robot.friction import MOST_EXCESS, StribeckFriction
from rbd_control.robot.inertial_corrections import CORRECTIONS, ROTOR, variations

Array = NDArray[np.float64]

PERIOD = 0.03
"""Period of the samples from which the errors are computed [s]."""
GAP = 1.0
"""Longest gap in a motion, longer than all periods [s]."""
NOISE = 0.003
"""Standard deviation of a filtered row, as a share of the joint's effort limit.

Assumed; the prediction error that ``calibrate`` prints for an arm is the better value.
"""
PRIOR = 0.1
"""Prior standard deviation of friction and of the torque of a rotor at the acceleration limit, as a
share of the effort limit: wide, as ``calibrate`` has no prior for them."""
DETERMINED = 0.5
"""Largest ratio of a standard error to its prior for which an unknown counts as determined."""
TYPICAL = 0.03
"""Friction with which the delayed torque is computed, as a share of the effort limit."""
MANY = 1e7
"""Number of rows of independent motions that show what motions of any length can determine."""


class _Friction(StribeckFriction):
    """Friction of one usual shape: errors hardly depend on the shape that fits best."""

    shapes = ({"velocity_scale": 0.02, "stribeck_velocity": 0.15},)
    simple = 1

    @classmethod
    def columns(cls, v: Array, shape: Mapping[str, float]) -> Iterator[Array | float]:
        """Yield the torque per unit of Coulomb and viscous friction, offset and excess."""
        coulomb, viscous, offset, both = super().columns(v, shape)
        yield from (coulomb, viscous, offset, (both - coulomb) / MOST_EXCESS)


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of a motion, (n,) each, for the margins that are wanted."""

    lower: Array
    """Lowest positions [rad or m]."""
    upper: Array
    """Highest positions [rad or m]."""
    velocity: Array
    """Greatest speeds [rad/s or m/s]."""
    acceleration: Array
    """Greatest accelerations [rad/s² or m/s²]."""
    effort: Array
    """Greatest torques of gravity and inertia [N·m or N]."""


class Observability:
    """Computes the standard errors after motions of one arm.

    Args:
        model: the arm.
        limits: the full limits of the arm, from which the priors follow.
        noise: standard deviation of a filtered row of each joint, (nv,) [N·m or N].

    Attributes:
        names: joint (index in v; -1 for all) and name of each unknown.
        prior: prior standard deviation of each unknown.
        typical_friction: friction with which torques are computed.
        reference: mean information of a row of independent motions; set it by :meth:`refer_to`.
    """

    def __init__(self, model: Model, limits: Limits, noise: Array) -> None:
        self.model, self.noise = model, noise
        self._changes = variations(model)
        n = model.nv
        self.names = [(joint, CORRECTIONS[column]) for joint, column, _ in self._changes]
        self.names += [(-1, "velocity_delay")]
        self.names += [(joint, name) for joint in range(n) for name in StribeckFriction.linear]
        self.reference = np.zeros((len(self.names), len(self.names)))
        torque = PRIOR * limits.effort
        self.typical_friction = StribeckFriction(
            coulomb=TYPICAL * limits.effort,
            viscous=TYPICAL * limits.effort / limits.velocity,
            offset=np.zeros(n),
            velocity_scale=np.full(n, 0.02),
            excess=np.zeros(n),
            stribeck_velocity=np.full(n, 0.15),
        )
        # The priors of masses and centres are those of the columns of any motion.
        t = np.arange(0.0, 4.0 * SETTLING / self._gain, PERIOD)
        still = RecordedMotion("", t, *np.zeros((3, t.size, n)))
        spread = filtered_columns([still], model, GAP, self._changes, _Friction).spread.copy()
        for k, (joint, column, _) in enumerate(self._changes):
            if column == ROTOR:
                spread[k] = torque[joint] / limits.acceleration[joint]
        friction = np.column_stack([torque, torque / limits.velocity, torque, torque])
        self.prior = np.concatenate([spread, [UNKNOWN], friction.ravel()])

    @property
    def _gain(self) -> float:
        return min(FILTER_GAIN, PER_RATE / PERIOD)

    def informations(self, q: Array, v: Array, a: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return the information of each of several motions, without the priors.

        Args:
            q, v, a: positions, velocities and accelerations of c motions with samples at every
                :data:`PERIOD`, (c, k, n); each begins and ends at rest in the same pose.

        Returns:
            The information, (c, unknowns, unknowns), and the number of rows of each motion.
        """
        c, k, n = q.shape
        # The motions follow each other without a gap, after the filter has settled.
        rest = round(SETTLING / (self._gain * PERIOD)) + 1
        q = np.concatenate([np.repeat(q[0, :1], rest, axis=0), q.reshape(c * k, n)])
        v = np.concatenate([np.zeros((rest, n)), v.reshape(c * k, n)])
        a = np.concatenate([np.zeros((rest, n)), a.reshape(c * k, n)])
        tau = inverse_dynamics(self.model, q, v, a) + self.typical_friction.torque(v)
        t: Array = PERIOD * np.arange(len(q), dtype=np.float64)
        motion = RecordedMotion("", t, q, v, tau)
        part = filtered_parts([motion], self.model, GAP)[0]
        columns = filtered_columns([motion], self.model, GAP, self._changes, _Friction)
        drive = tau - gravity_torque(self.model, q)
        delay = -part.thin(np.diff(drive, axis=0) / PERIOD)
        columns = replace(
            columns,
            inertia=np.concatenate([columns.inertia, delay[:, :, None]], axis=2),
            spread=np.full(len(self._changes) + 1, np.inf),
        )
        which = (np.round(part.t / PERIOD).astype(np.int64) - rest) // k
        found, rows = [], []
        for motion_number in range(c):
            own = which == motion_number
            rows.append(int(own.sum()))
            found.append(information(columns.rows(own), self.noise))
        return np.array(found), np.array(rows, dtype=np.int64)

    def refer_to(self, informations: Array, rows: NDArray[np.int64]) -> None:
        """Set the independent motions from what :meth:`informations` returned for them."""
        self.reference = informations.sum(axis=0) / (rows.sum() * self.model.nv)

    def covariance(self, info: Array) -> Array:
        """Return the covariance of the unknowns for an information without priors."""
        scale = self.prior
        whole = info * scale[:, None] * scale + np.eye(scale.size)
        return np.asarray(np.linalg.inv(whole) * scale[:, None] * scale)

    def errors(self, info: Array) -> Array:
        """Return the standard error of each unknown, at most its prior, in its unit."""
        return np.sqrt(np.diag(self.covariance(info)))

    def measure(self, info: Array) -> float:
        """Return the expected torque error E on independent motions, relative to the noise."""
        return float(np.sqrt((self.covariance(info) * self.reference).sum()))

    def best_errors(self) -> Array:
        """Return the standard errors after very many independent motions."""
        return self.errors(MANY * self.model.nv * self.reference)
