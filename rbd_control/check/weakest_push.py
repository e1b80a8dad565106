"""The weakest push that the detector can detect with its thresholds, by link and direction.

A unit force at the origin of a link in direction ``d`` adds ``Jᵀ d`` to the residual. In one pose
the weakest detected force is the smallest ``f`` for which one of the detector's rules holds::

    |f Jᵀ d|_i > threshold_i                              for some joint i
    ‖W less_friction(f Jᵀ d)‖ > statistic threshold       with the covariance of the residual

(:mod:`~rbd_control.estimation.thresholds`). The thresholds are those at the recorded speed, with
the friction margin of joints at rest or reversing. The result is the median over the poses.
Noise and model errors are neglected; they are below the thresholds. A push must last
longer than the delay of the observer.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.explanations import finish
from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.estimation.default_thresholds import with_default_thresholds
from rbd_control.estimation.detector_parameters import DetectorParameters

Array = NDArray[np.float64]

BLIND = 1e4
"""Force above which a push counts as never detected [N]."""
POSES = 200
"""Largest number of evaluated poses."""
LEAST_TORQUE = 1e-12
"""Torque of a force of 1 N below which the force has no effect [N·m or N]."""
_STEPS = 40
"""Number of bisection steps for the statistic; forces are exact to 1e-8 of ``BLIND``."""


def _directions(count: int) -> Array:
    """Return unit vectors that cover half of the sphere evenly, (count, 3); -d is like d."""
    z = (np.arange(count) + 0.5) / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


DIRECTIONS = _directions(100)
"""Evaluated directions of force, about 15 degrees apart."""


@dataclass(frozen=True)
class WeakestPush:
    """The weakest detected pushes at the origin of one link, medians over the poses [N].

    A force that is never detected is infinite.
    """

    link: str
    best: float
    """In the direction of each pose that needs the smallest force."""
    worst: float
    """In the direction of each pose that needs the largest force."""
    axes: tuple[float, float, float]
    """Along the axes of the root link."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; infinite forces are None."""
        best, worst, *axes = (
            None if np.isinf(force) else force for force in (self.best, self.worst, *self.axes)
        )
        return {"link": self.link, "best": best, "worst": worst, "axes": axes}


def weakest_pushes(
    model: Model, parameters: DetectorParameters, q: Array, v: Array
) -> tuple[WeakestPush, ...]:
    """Return the weakest detected push for each link that a joint moves.

    Args:
        model: the identified robot.
        parameters: of the detector, per-joint values in the order of the model.
        q: poses, (k, nq) [rad or m].
        v: velocities in these poses, (k, nv) [rad/s or m/s].
    """
    step = -(-len(q) // POSES)
    return finish(pushes_in_steps(model, parameters, q[::step], v[::step]))


def pushes_in_steps(
    model: Model, parameters: DetectorParameters, q: Array, v: Array
) -> Generator[None, None, tuple[WeakestPush, ...]]:
    """Yield after each direction that was tried, and return what :func:`weakest_pushes` returns."""
    rules = Rules.of(model, parameters, v)
    pushes = []
    for link in model.joint_links:
        push = yield from _of_link(model, rules, link, q)
        pushes.append(push)
    return tuple(pushes)


@dataclass(frozen=True, eq=False)
class Rules:
    """The thresholds of the decision at k samples."""

    threshold: Array
    """(k, nv) threshold of each joint [N·m or N]."""
    allowance: Array
    """(k, nv) friction margin of each residual [N·m or N]."""
    whitening: Array | None
    """(nv, nv) whitening matrix of the residuals; None without a covariance."""
    statistic: Array
    """(k,) threshold of the statistic."""

    @classmethod
    def of(cls, model: Model, parameters: DetectorParameters, v: Array) -> Rules:
        """Return the rules at the velocities v (k, nv) [rad/s or m/s]."""
        parameters = with_default_thresholds(parameters, model)
        contact, slope, moving, slow = (
            parameters.for_joints(name, model.nv)
            for name in ("contact_threshold", "threshold_speed", "moving_ratio", "reversal_speed")
        )
        speed = np.abs(v)
        allowance = contact * (1.0 - moving) * (speed <= slow)
        covariance = parameters.covariance(model.nv)
        whitening = None if covariance is None else np.linalg.inv(np.linalg.cholesky(covariance))
        statistic = parameters.statistic_threshold + parameters.statistic_speed * speed.max(axis=1)
        return cls(moving * contact + allowance + slope * speed, allowance, whitening, statistic)

    def least_force(self, torque: Array) -> Array:
        """Return the weakest detectable force at each sample, (k,) [N].

        Args:
            torque: residual of a force of 1 N, (k, nv) [N·m or N].
        """
        size = np.abs(torque)
        force = self.threshold / np.maximum(size, LEAST_TORQUE)
        force = np.minimum(force.min(axis=1), self._least_by_statistic(torque))
        return np.where(force < BLIND, force, np.inf)

    def _least_by_statistic(self, torque: Array) -> Array:
        """Return the force (k,) at which the statistic exceeds its threshold [N], by bisection."""
        low, high = np.zeros(len(torque)), np.full(len(torque), BLIND)
        if self.whitening is None:
            return np.full(len(torque), np.inf)
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            r = middle[:, None] * torque
            r -= np.clip(r, -self.allowance, self.allowance)
            found = np.linalg.norm(r @ self.whitening.T, axis=1) > self.statistic
            low, high = np.where(found, low, middle), np.where(found, middle, high)
        return high


def _of_link(model: Model, rules: Rules, link: str, q: Array) -> Generator[None, None, WeakestPush]:
    """Yield after each direction that was tried, and return the weakest pushes on one link."""
    J = np.asarray(frame_jacobian(model, q, link))[:, 3:]
    weighted = J / rules.threshold[:, None, :]
    # The principal axes of the map from force to torque; one of them may load no joint.
    _, axes = np.linalg.eigh(weighted @ weighted.transpose(0, 2, 1))
    forces = []
    for d in (*np.eye(3), *DIRECTIONS):
        forces.append(rules.least_force(np.einsum("kdi,d->ki", J, d)))
        yield
    for c in range(3):
        forces.append(rules.least_force(np.einsum("kdi,kd->ki", J, axes[:, :, c])))
        yield
    # The same direction loads the joints differently in each pose.
    best, worst = np.min(forces, axis=0), np.max(forces, axis=0)
    x, y, z = (float(np.median(force)) for force in forces[:3])
    return WeakestPush(link, float(np.median(best)), float(np.median(worst)), (x, y, z))
