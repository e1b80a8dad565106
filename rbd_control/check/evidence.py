"""The evidence of a recording about the arm, as columns of linear equations.

Over a motion without contact the effort of joint ``i`` obeys, filtered and sampled once per time
constant of the filter::

    effort_i = need_i + friction_i c_i + error        need = inertial torque + gravity torque

``need`` is the torque of the model, and ``c_i`` the unknown coefficients of friction. Each possible
error of the description adds columns: an inertia ``J`` of motor and gear adds ``rotor J``, a
gravity vector ``g`` adds ``gravity g``, a payload adds ``payload θ`` with
``θ = (m, m x, m y, m z)``. Friction (Coulomb, viscous, constant) is always unknown, so all columns
of a joint are projected onto the orthogonal complement of its friction columns. The projection of
``effort - need`` is the misfit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.estimation.effort_scale import FRICTION, stray_bounds
from rbd_control.estimation.identification import filtered_columns
from rbd_control.estimation.mismatch import unit_payloads
from rbd_control.estimation.motion import Motion, in_range
from rbd_control.robot.inertial_corrections import ROTOR as ROTOR_COLUMN
from rbd_control.robot.inertial_corrections import variations

Array = NDArray[np.float64]

RATE = 125.0
"""Lowest rate to which samples are thinned out; the result is below twice this rate [Hz].

Slower recordings are not thinned out. The filter passes nothing above 20 rad/s.
"""


EFFORT, NEED, ROTOR, GRAVITY, PAYLOAD = 0, 1, 2, slice(3, 6), slice(6, 10)
"""Indices of the columns on the last axis of ``raw`` and ``free`` of :class:`Evidence`."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Columns of a linear regression of the efforts of ``nv`` joints, over n filtered samples.

    The columns are effort and torque of the model [N·m or N, if the effort is a torque], and the
    torques of a unit rotor inertia, gravity and payload (see the properties).

    The properties are *projected*: the part that the joint's own friction could explain, the span
    of ``friction``, has been subtracted from the column, so that friction cannot hide an error.

    Attributes:
        raw: effort, need, rotor, gravity (3) and payload (4), (n, nv, 10).
        friction: sign of the velocity, velocity, and one, (n, nv, 3).
        bases: orthonormal columns that span ``friction``, (n, nv, 3).
        free: ``raw`` without the part that friction can explain, (n, nv, 10).
        field: gravity vector in ``need``, in the frame of the root, (3,) [m/s²].
    """

    raw: Array
    friction: Array
    bases: Array
    free: Array
    field: Array

    @classmethod
    def of(cls, raw: Array, friction: Array, field: Array) -> Evidence:
        """Return the evidence of these columns; see the attributes of the same names."""
        bases = _bases(friction)
        return cls(raw, friction, bases, _project(bases, raw), field)

    @property
    def effort(self) -> Array:
        """Projected effort, (n, nv) [N·m or N if the effort is a torque]."""
        return np.asarray(self.free[..., EFFORT])

    @property
    def need(self) -> Array:
        """Projected torque that the model needs, (n, nv) [N·m or N]."""
        return np.asarray(self.free[..., NEED])

    @property
    def rotor(self) -> Array:
        """Projected torque that a rotor inertia of 1 kg·m² (or kg) at each joint would need.

        Shape (n, nv) [N·m or N].
        """
        return np.asarray(self.free[..., ROTOR])

    @property
    def gravity(self) -> Array:
        """Projected gravity torque of 1 m/s² along each axis of the root, (n, nv, 3) [N·m or N]."""
        return np.asarray(self.free[..., GRAVITY])

    @property
    def payload(self) -> Array:
        """Projected torque that a payload at the last link would need, (n, nv, 4) [N·m or N].

        The columns belong to 1 kg at the origin of the link, and to first moments of 1 kg·m along
        x, y and z.
        """
        return np.asarray(self.free[..., PAYLOAD])

    @property
    def misfit(self) -> Array:
        """RMS (nv,) of the part that neither model nor friction explains [N·m or N]."""
        return rms(self.effort - self.need)

    def with_effort(self, effort: Array) -> Evidence:
        """Return the evidence with another recorded effort, (n, nv).

        It is stored as given, and without the part that friction explains.
        """
        return self._with(EFFORT, effort)

    def with_need(self, need: Array, field: Array | None = None) -> Evidence:
        """Return the evidence with another torque, and optionally another gravity, of the model.

        Args:
            need: torque that the model needs for the motion, (n, nv) [N·m or N]. It is stored as
                given, and without the part that friction explains.
            field: gravity vector of the model (3,) [m/s²].

        Returns:
            The evidence; all other columns are kept.
        """
        changed = self._with(NEED, need)
        return changed if field is None else replace(changed, field=field)

    def rows(self, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of the samples that are True in ``kept`` (n,)."""
        return Evidence.of(self.raw[kept], self.friction[kept], self.field)

    def _with(self, column: int, values: Array) -> Evidence:
        raw, free = self.raw.copy(), self.free.copy()
        raw[..., column] = values
        free[..., column] = _project(self.bases, values[..., None])[..., 0]
        return replace(self, raw=raw, free=free)


def gather(motions: Sequence[Motion], model: Model, maximum_gap: float) -> Evidence:
    """Filter motions and return the columns of the regression of their efforts.

    Samples with outlying efforts are left out.

    Args:
        motions: motions, ``tau`` as joint torque [N·m or N], or in the unit of the driver.
        model: the robot.
        maximum_gap: longer times between samples [s] divide a motion into parts.

    Raises:
        RecordingError: if no part is long enough for the filter, 0.5 s at usual rates.
    """
    field = np.array(model.arrays.gravity, dtype=float)
    variants = [model, *(_in_field(model, axis) for axis in (np.zeros(3), *np.eye(3)))]
    thinned = [motion for motion in map(_thinned, motions) if motion.t.size > 1]
    # Thinning lengthens the time between samples, which must not count as a gap.
    spacings = [float(np.median(np.diff(motion.t))) for motion in thinned]
    columns = filtered_columns(
        thinned,
        model,
        max([maximum_gap, *(1.5 * spacing for spacing in spacings)]),
        [(0, 0, one) for one in (*variants, *unit_payloads(model), *_unit_rotors(model))],
    )
    need, weightless = columns.inertia[..., 0], columns.inertia[..., 1]
    # The external torque decreases by the torque of the motor.
    turning = columns.inertia[..., 9:]
    # No rotors can be added to a model that has rotors already.
    rotor = np.einsum("nii->ni", turning) if turning.size else np.zeros_like(need)
    own = np.stack([need - columns.x, need, rotor], axis=-1)
    gravity = columns.inertia[..., 2:5] - weightless[..., None]
    raw = np.concatenate([own, gravity, columns.inertia[..., 5:9]], axis=-1)
    return Evidence.of(raw, columns.friction[:, :, FRICTION, :3], field)


def rms(x: Array) -> Array:
    """Return the root mean square over the first axis."""
    return np.asarray(np.sqrt((x**2).mean(axis=0)))


def _project(bases: Array, x: Array) -> Array:
    """Return columns x (n, nv, m) without their projection onto ``bases`` (n, nv, 3)."""
    inside = np.einsum("nif,nim->ifm", bases, x)
    return np.asarray(x - np.einsum("nif,ifm->nim", bases, inside))


def _bases(friction: Array) -> Array:
    """Return orthonormal columns (n, nv, 3) that span each joint's friction; zero if dependent."""
    bases = np.zeros_like(friction)
    for i in range(friction.shape[1]):
        u, size, _ = np.linalg.svd(friction[:, i], full_matrices=False)
        kept = size > 1e-9 * max(float(size[0]), 1e-12)
        bases[:, i, : kept.sum()] = u[:, kept]
    return bases


def _in_field(model: Model, field: Array) -> Model:
    """Return the robot in another field of gravity (3,) [m/s²]."""
    return replace(model, arrays=model.arrays._replace(gravity=np.array(field, dtype=float)))


def _unit_rotors(model: Model) -> list[Model]:
    """Return robots without bodies, each with a rotor of 1 kg·m² (or kg) at one joint."""
    return [change for _, column, change in variations(model) if column == ROTOR_COLUMN]


def _thinned(motion: Motion) -> Motion:
    """Return the motion at a lower rate, without outlying efforts and samples out of range."""
    bad = np.abs(motion.tau) > stray_bounds(motion.tau)
    motion = motion.only(in_range(motion) & ~bad.any(axis=1))
    if motion.t.size < 2:
        return motion
    step = max(1, int(1.0 / (RATE * max(float(np.median(np.diff(motion.t))), 1e-6))))
    return Motion(motion.name, *(x[::step] for x in (motion.t, motion.q, motion.v, motion.tau)))
