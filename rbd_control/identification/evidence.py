"""Evidence of a motion about the arm: its efforts as linear equations in all causes of errors.

In a motion without contact the effort of joint ``i``, by declared kind and gain, obeys::

    effort_i = s_i (need_i + sum of columns of causes) + friction_i(v) + error

``need`` is the inertial and gravity torque of the described arm. A cause adds columns: a payload
the torque of its mass and of its first moments, a tilted base the torque of a change of gravity, a
rotor the acceleration of its joint, a velocity that is late the rate of change of the torque, and
errors of the described masses and centres of mass their torques. All columns pass the same low-pass
filter (:mod:`~rbd_control.identification.regression`), and are sampled once per time constant.

A joint at rest says less: its static friction may carry any torque up to the Coulomb friction, and
all its samples say the same. A rest counts as one sample, however long it is, and lasts until the
filter has forgotten it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.identification.motion import RecordedMotion, in_range, stray_bounds
from rbd_control.identification.regression import (
    COM_SPREAD,
    MASS_SPREAD,
    external_means,
    filtered_parts,
    means,
)
from rbd_control.robot.inertial_corrections import ROTOR as ROTOR_COLUMN
from rbd_control.robot.inertial_corrections import variations

Array = NDArray[np.float64]

RATE = 125.0
"""Lowest rate to which samples are thinned out; the result is below twice this rate [Hz].

Slower recordings are not thinned out. The filter passes nothing above 20 rad/s.
"""
STEP = 0.05
"""Velocity scale of the Coulomb friction [rad/s or m/s]."""
MOVED = 0.95
"""Share of the filter's memory in which a joint moves in a sample of motion.

A joint that stuck in the rest of it may have carried any torque up to its Coulomb friction.
"""


@dataclass(frozen=True)
class Layout:
    """Places of the columns of each joint on the last axis of :attr:`Evidence.columns`."""

    nv: int
    bodies: int

    @property
    def effort(self) -> slice:
        """Efforts of all joints, as torques by declared kind and gain."""
        return slice(0, self.nv)

    @property
    def need(self) -> int:
        """Torque that the described arm needs, with gravity [N·m or N]."""
        return self.nv

    @property
    def weight(self) -> int:
        """Gravity torque, a part of ``need``."""
        return self.nv + 1

    @property
    def resistance(self) -> int:
        """Friction of the parameters."""
        return self.nv + 2

    @property
    def friction(self) -> slice:
        """Torque of Coulomb friction of 1 N·m, viscous friction of 1 N·m·s/rad, offset of 1 N·m."""
        return slice(self.nv + 3, self.nv + 6)

    @property
    def rotor(self) -> int:
        """Torque of a rotor inertia of 1 kg·m² (or kg) at this joint."""
        return self.nv + 6

    @property
    def payload(self) -> slice:
        """Torque of 1 kg at the origin of the last link, and of first moments of 1 kg·m."""
        return slice(self.nv + 7, self.nv + 11)

    @property
    def field(self) -> slice:
        """Torque of gravity of 1 m/s² along each axis of the root."""
        return slice(self.nv + 11, self.nv + 14)

    @property
    def late(self) -> slice:
        """Change of the effort, and of the gravity torque, per second of delay [N·m/s or N/s]."""
        return slice(self.nv + 14, self.nv + 16)

    @property
    def masses(self) -> slice:
        """Torque of corrections of the bodies, four each: mass [kg], centre of mass [m]."""
        return slice(self.nv + 16, self.nv + 16 + 4 * self.bodies)

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.nv + 16 + 4 * self.bodies


@dataclass(frozen=True, eq=False)
class Evidence:
    """Filtered samples of motions, of which each has columns for every joint.

    Attributes:
        layout: places of the columns.
        t: times of the samples, increasing within a motion, (n,) [s].
        columns: (n, nv, K), see :class:`Layout`.
        moving: whether each joint moves in each sample, (n, nv).
        rest: weight of each sample of a resting joint, one in total for each rest, (n, nv).
        field: gravity vector of the model, (3,) [m/s²].
        spread: prior standard deviations of the corrections in ``masses``, (4 bodies,).
    """

    layout: Layout
    t: Array
    columns: Array
    moving: NDArray[np.bool_]
    rest: Array
    field: Array
    spread: Array

    def rows(self, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of the samples that are True in ``kept`` (n,)."""
        moving = self.moving[kept]
        return replace(
            self, t=self.t[kept], columns=self.columns[kept], moving=moving, rest=_rests(moving)
        )

    def residual_rms(self) -> Array:
        """Return the RMS residual of the described arm with the friction of the parameters, (nv,).

        It is in N·m or N.
        """
        L, columns = self.layout, self.columns
        effort = np.einsum("nii->ni", columns[..., L.effort])
        residual = effort - columns[..., L.need] - columns[..., L.resistance]
        return np.asarray(np.sqrt(np.square(residual).mean(axis=0)))

    def grams(self) -> tuple[Array, Array]:
        """Return the sums of products of the columns of each joint, in motion and at rest.

        Shape (nv, K, K) each.
        """
        each = self.columns.transpose(1, 0, 2)
        moving, resting = (
            np.asarray(each.swapaxes(1, 2) @ (each * weight.T[..., None]))
            for weight in (self.moving, self.rest)
        )
        return moving, resting


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence of all samples of at least one part, of the same arm."""
    t, columns, moving, rest = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("t", "columns", "moving", "rest")
    )
    return replace(parts[0], t=t, columns=columns, moving=moving, rest=rest)


def gather(
    motions: Sequence[RecordedMotion], model: Model, parameters: DetectorParameters
) -> Evidence:
    """Return the evidence of motions.

    Args:
        motions: motions, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot.
        parameters: kind and gain of the efforts, friction, and ``maximum_gap``.

    Raises:
        RecordingError: if no part is long enough for the filter, 0.5 s at usual rates.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    steps = gather_in_steps(motions, model, parameters)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def gather_in_steps(
    motions: Sequence[RecordedMotion], model: Model, parameters: DetectorParameters
) -> Generator[None, None, Evidence]:
    """Yield after each column, and return the evidence, as :func:`gather`."""
    changes = variations(model)
    bodies = [change for change in changes if change[1] != ROTOR_COLUMN]
    rotors = [change for change in changes if change[1] == ROTOR_COLUMN]
    layout = Layout(model.nv, len(bodies) // 4)
    field = np.array(model.arrays.gravity, dtype=float)
    thinned = [part for part in (_thinned(motion) for motion in motions) if part.t.size > 1]
    # Thinning lengthens the time between samples, which must not count as a gap.
    spacings = [float(np.median(np.diff(part.t))) for part in thinned]
    gap = max([parameters.maximum_gap, *(1.5 * spacing for spacing in spacings)])
    gain, friction = parameters.for_joints("effort_gain", model.nv), parameters.friction(model.nv)
    found: list[Evidence] = []
    for filtered in filtered_parts(thinned, model, gap):
        part, thin = filtered.motion, filtered.thin
        still = replace(part, tau=np.zeros_like(part.tau))
        gravity = gravity_torque(model, part.q)
        tau = gain * part.tau
        if parameters.effort_kind == "torque_without_gravity":
            tau = tau + gravity
        dt = np.diff(part.t)[:, None]
        need = thin(external_means(still, model))
        columns = np.empty((*need.shape, layout.size))
        columns[..., layout.effort] = thin(means(tau))[:, None, :]
        columns[..., layout.need] = need
        columns[..., layout.weight] = thin(means(gravity))
        columns[..., layout.resistance] = thin(means(friction.torque(part.v)))
        step = np.tanh(part.v / STEP)
        for place, signal in zip(
            range(layout.friction.start, layout.friction.stop),
            (means(step), means(part.v), np.ones((dt.size, model.nv))),
            strict=True,
        ):
            columns[..., place] = thin(signal)
        columns[..., layout.late.start] = thin(-np.diff(tau, axis=0) / dt)
        columns[..., layout.late.start + 1] = thin(np.diff(gravity, axis=0) / dt)
        yield
        columns[..., layout.rotor] = 0.0
        for i, _, change in rotors:
            columns[:, i, layout.rotor] = thin(external_means(still, change))[:, i]
        for axis in range(3):
            tilted = _in_field(model, np.eye(3)[axis])
            columns[..., layout.field.start + axis] = thin(means(gravity_torque(tilted, part.q)))
        yield
        for place, one in enumerate(unit_payloads(model), layout.payload.start):
            columns[..., place] = thin(external_means(still, one))
        for place, (_, _, change) in enumerate(bodies, layout.masses.start):
            columns[..., place] = thin(external_means(still, change))
            yield
        moving = filtered.moving_share() > MOVED
        found.append(
            Evidence(layout, filtered.t, columns, moving, _rests(moving), field, np.empty(0))
        )
    every = joined(found)
    return replace(every, spread=_spread(model, bodies))


def _spread(model: Model, bodies: Sequence[tuple[int, int, Model]]) -> Array:
    """Return the prior standard deviation of each correction of a body [kg or m]."""
    mass = model.arrays.mass[model.dof_row]
    return np.array([COM_SPREAD if c else MASS_SPREAD * mass[i] for i, c, _ in bodies])


def _rests(moving: NDArray[np.bool_]) -> Array:
    """Return the weight of each sample of a resting joint, one in total for each rest, (n, nv)."""
    weight = np.zeros(moving.shape)
    for i, column in enumerate(moving.T):
        edges = np.flatnonzero(np.diff(column.astype(int))) + 1
        for rest in np.split(np.arange(column.size), edges):
            if rest.size and not column[rest[0]]:
                weight[rest, i] = 1.0 / rest.size
    return weight


def unit_payloads(model: Model) -> list[Model]:
    """Return robots whose torques are the derivatives with respect to a payload at the last link.

    Returns:
        Four robots that consist only of 1 kg at the origin of the body that the last joint moves,
        or of a first moment of 1 kg·m along x, y or z of the frame of this body.
    """
    arrays, row = model.arrays, model.dof_row[-1]
    result = []
    for column in range(4):
        mass, first = np.zeros_like(arrays.mass), np.zeros_like(arrays.first_moment)
        if column == 0:
            mass[row] = 1.0
        else:
            first[row, column - 1] = 1.0
        only = arrays._replace(
            mass=mass, first_moment=first, second_moment=np.zeros_like(arrays.second_moment)
        )
        result.append(replace(model, arrays=only))
    return result


def _in_field(model: Model, field: Array) -> Model:
    """Return the robot in another field of gravity (3,) [m/s²]."""
    return replace(model, arrays=model.arrays._replace(gravity=np.array(field, dtype=float)))


def _thinned(motion: RecordedMotion) -> RecordedMotion:
    """Return the motion at a lower rate, without outlying efforts and samples out of range."""
    bad = np.abs(motion.tau) > stray_bounds(motion.tau)
    motion = motion.only(in_range(motion) & ~bad.any(axis=1))
    if motion.t.size < 2:
        return motion
    step = max(1, int(1.0 / (RATE * max(float(np.median(np.diff(motion.t))), 1e-6))))
    return RecordedMotion(
        motion.name, *(x[::step] for x in (motion.t, motion.q, motion.v, motion.tau))
    )
