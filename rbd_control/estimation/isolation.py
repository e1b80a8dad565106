"""Which link was touched, and with what force, from the pattern of the residual.

A force ``F`` at a point of link ``l`` leaves ``r = Jᵀ F``, where ``J`` (3, nv) is the linear
Jacobian of that point; joints beyond the link feel nothing. Every moving link offers a few points
(its origin, the origins of what is fixed to it, its centre of mass, half-way to the links it
carries), and for each point the force is
fitted by least squares, weighted by what each joint's residual is known to be worth. The point
whose fit leaves the least unexplained residual names the link, each force component that could be
chosen freely counting against it (Akaike's criterion).

A force component that hardly moves any joint cannot be known from joint torques. Where the
uncertainty of the fitted force exceeds a limit the answer is "not observable", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.kinematics import link_point
from rbd_control.dynamics.spatial import add, cross, load3, load6
from rbd_control.dynamics.sweep import new_sweep, place_bodies

NOISE_FRACTION = 1.0 / 3.0
"""Standard deviation of a joint's residual, as a part of its detection threshold."""


@dataclass(frozen=True)
class Isolation:
    """The link a residual points to."""

    link: str
    force: np.ndarray | None
    """Force the environment applies, (3,) world axes [N]; None where it is not observable."""
    misfit: float
    """Root mean square of the unexplained residual, in detection thresholds."""


@compiled
def _point_jacobians(model, q, bodies, points, out):
    s = new_sweep(model.parent.shape[0])
    place_bodies(model, q, s)
    out[:] = 0.0
    for k in range(bodies.shape[0]):
        point = link_point(s, bodies[k], load3(points, k))
        i = bodies[k]
        while i >= 0:
            angular, linear = load6(s.Phi, i)
            column = add(linear, cross(angular, point))
            for r in range(3):
                out[k, r, i] = column[r]
            i = model.parent[i]


class LinkIsolation:
    """Isolation and force estimate for one model.

    Args:
        model: the robot.
        threshold: detection threshold of each joint, (nv,) [N·m or N], the scale of the residual.
        force_uncertainty: largest standard deviation of the force still called observable [N].
    """

    def __init__(self, model: Model, threshold: np.ndarray, force_uncertainty: float) -> None:
        self._model = model
        self._noise = NOISE_FRACTION * np.asarray(threshold, dtype=float)
        self._limit = force_uncertainty
        arrays = model.arrays
        first = model.nv - len(model.joint_names)
        bodies: list[int] = []
        points: list[np.ndarray] = []
        for body in range(first, model.nv):
            # The origins of the link and of what is fixed to it, a hand or a tool.
            own = [
                model.link_placement[k][:3, 3] for k, at in model.link_body.items() if at == body
            ]
            if arrays.mass[body] > 0.0:
                own.append(arrays.first_moment[body] / arrays.mass[body])
            children = np.flatnonzero(arrays.parent[: model.nv] == body)
            own.extend(0.5 * arrays.translation[children])
            distinct = np.unique(np.round(own, 6), axis=0)
            bodies.extend([body] * len(distinct))
            points.extend(distinct)
        self._bodies = np.array(bodies, dtype=np.int64)
        self._points = np.array(points, dtype=float).reshape(-1, 3)
        self._links = [model.joint_links[body - first] for body in bodies]
        self._jacobians = np.empty((len(bodies), 3, model.nv))

    def isolate(self, q: np.ndarray, residual: np.ndarray) -> Isolation:
        """Name the link and estimate the force for one sample.

        Args:
            q: joint positions, (nq,) [rad or m].
            residual: r, (nv,) [N·m or N].
        """
        _point_jacobians(
            self._model.arrays,
            np.ascontiguousarray(q, dtype=float),
            self._bodies,
            self._points,
            self._jacobians,
        )
        y = residual / self._noise
        A = self._jacobians / self._noise  # (k, 3, nv), rows in 1/N
        # Eigenvalues of A Aᵀ are inverse variances of the force along its principal directions.
        information, directions = np.linalg.eigh(A @ A.swapaxes(1, 2))
        # A direction is worth fitting if a force below the limit would stand out of the noise.
        fitted = information > 1.0 / (10.0 * self._limit) ** 2
        inverse = np.where(fitted, 1.0 / np.where(fitted, information, 1.0), 0.0)
        projected = (directions.swapaxes(1, 2) @ (A @ y)[..., None])[..., 0]  # (k, 3)
        force = (directions @ (inverse * projected)[..., None])[..., 0]
        unexplained = y - (A.swapaxes(1, 2) @ force[..., None])[..., 0]
        misfit = (unexplained**2).sum(axis=1)
        best = int(np.argmin(misfit + 2.0 * fitted.sum(axis=1)))
        known = information[best].min() > 1.0 / self._limit**2
        return Isolation(
            link=self._links[best],
            force=force[best].copy() if known else None,
            misfit=float(np.sqrt(misfit[best] / y.size)) * NOISE_FRACTION,
        )
