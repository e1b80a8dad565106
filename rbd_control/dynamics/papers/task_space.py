"""Dynamics in task space, and forward dynamics by the mass matrix.

**Dynamics in task space: the inertia and the bias force of a link.**

With ``V = J v`` the twist of a link (world-aligned at its origin, angular first) and
``M a + b = tau``, ``b = C v + g``::

    F = Lambda V_dot + eta

    Lambda = (J M⁻¹ Jᵀ)⁻¹                     task-space inertia                   LP (9.98)
    J_bar  = M⁻¹ Jᵀ Lambda                    dynamically consistent inverse of J
    F      = J_barᵀ tau                       task-space force
    eta    = mu + p,  mu = J_barᵀ C v - Lambda J_dot v,  p = J_barᵀ g             LP (9.99)

LP is Lynch & Park, *Modern Robotics*. For six joints they write ``Lambda = J⁻ᵀ M J⁻¹`` and
``J_bar = J⁻¹``. The forms above equal these for six joints and hold for any number of joints
(Khatib, *A Unified Approach for Motion and Force Control of Robot Manipulators*, IEEE J. Robotics
and Automation 1987). Correction of the source: (9.95) has J⁻ᵀ b where b is meant.

With ``M = R Rᵀ`` and the singular values ``sigma`` of ``J R⁻ᵀ`` (sigma⁻² is the effective mass in
the direction of a singular vector; it is infinite where the link cannot move)::

    exact     Lambda = U diag(1 / sigma²) Uᵀ
    damped    Lambda = U diag(1 / (sigma² + damping²)) Uᵀ = (J M⁻¹ Jᵀ + damping² 1)⁻¹
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rbd_control.dynamics.arguments import configuration, state
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.coriolis import dynamics_terms, mass_matrix
from rbd_control.dynamics.kinematics import frame_jacobian, frame_jacobian_rate
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.newton_euler import inverse_dynamics
from rbd_control.errors import InputError


def forward_dynamics_by_mass_matrix(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Return the acceleration that a torque causes: the solution a of ``M a = tau - b``.

    Inverse dynamics computes ``b = C v + g - sum of J_kᵀ wrench_k``, with the Jacobian J_k of link
    k. The result is that of :func:`~rbd_control.dynamics.forward_dynamics`, which costs O(N) and is
    faster for all but the shortest chains.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        tau: joint torques, (..., nv) [N·m or N].
        wrenches: wrenches that the environment applies, ``{link: [moment ; force]}``, (..., 6) each
            [N·m, N], world-aligned at the link's origin.

    Returns:
        (..., nv) [rad/s² or m/s²].

    Raises:
        InputError: for an unknown link, arguments of the wrong shape or not finite, or where the
            mass matrix is singular.

    Source: Lynch & Park, *Modern Robotics* (LP), section 9.5, algorithm GetJointAccel, eq. 9.89.
    O(nv³).
    """
    (positions, velocities, torques), shape = state(model, q, v=v, tau=tau)
    positions, velocities, torques = (
        array.reshape(*shape, array.shape[-1]) for array in (positions, velocities, torques)
    )
    still = np.zeros(model.nv)
    b = inverse_dynamics(model, positions, velocities, still, wrenches)
    M = mass_matrix(model, positions)
    R = cholesky_factor(M)
    return np.linalg.solve(R.swapaxes(-1, -2), np.linalg.solve(R, (torques - b)[..., None]))[..., 0]


def cholesky_factor(M: np.ndarray) -> np.ndarray:
    """Return the lower triangular R with ``M = R Rᵀ``, for mass matrices ``M``, (..., nv, nv).

    Raises:
        InputError: if a matrix is singular: it is not positive definite, or a squared pivot of the
            factorisation is at most 1e-13 of the diagonal entry of M, or 1e-14 of the largest one.
    """
    try:
        R = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        R = np.zeros_like(M)
    # Squared pivot of each joint, and its entry of M; a pivot of 1e-13 of that entry is roundoff.
    # The entry itself may be roundoff, as where the joint carries only a point on its axis.
    left, own = (np.diagonal(X, axis1=-2, axis2=-1) for X in (R, M))
    if np.any(left * left <= 1e-13 * np.maximum(own, 0.1 * own.max(axis=-1, keepdims=True))):
        raise InputError("the mass matrix is singular at this configuration: massless bodies")
    return R


SINGULAR = 1e-6
"""Ratio of the smallest to the largest singular value, up to which the exact form is refused.

At this ratio the effective masses of two directions differ by a factor of 1e12. Below it, rounding
errors of the model and of the computation determine the result.
"""

ALL_ROWS = (0, 1, 2, 3, 4, 5)


class TaskSpaceTerms(NamedTuple):
    """Terms of ``F = Lambda V_dot + mu + p`` for k chosen rows of the twist."""

    Lambda: np.ndarray
    """Task-space inertia, (..., k, k) [kg·m², kg·m or kg]."""
    mu: np.ndarray
    """Coriolis and centripetal force, (..., k) [N·m, N]."""
    p: np.ndarray
    """Gravity force, (..., k) [N·m, N]: the task-space force that holds the link at rest."""
    J_bar: np.ndarray
    """Dynamically consistent inverse of the Jacobian, (..., nv, k); F = J_barᵀ tau."""

    @property
    def eta(self) -> np.ndarray:
        """The bias force mu + p of Coriolis, centripetal and gravity forces, (..., k) [N·m, N]."""
        return self.mu + self.p


def task_space_inertia(
    model: Model,
    q: np.ndarray,
    link: str,
    *,
    rows: Sequence[int] = ALL_ROWS,
    damping: float = 0.0,
) -> np.ndarray:
    """Return the task-space inertia Lambda of a link.

    The kinetic energy of a robot whose link has the velocities V in these rows is at least
    ½ Vᵀ Lambda V.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        link: name of the link.
        rows: rows of the twist [w ; u], world-aligned at the link's origin, that form the task.
        damping: zero for the exact inverse, or a positive value as in :func:`task_space_terms`.

    Returns:
        (..., k, k) for k rows [kg·m² between rotations, kg between translations, kg·m if mixed].

    Raises:
        InputError: where the exact inverse does not exist or the mass matrix is singular; for an
            unknown link, invalid rows or damping, or a ``q`` of the wrong shape or not finite.

    Source: LP eq. 9.98; Khatib (1987). O(nv³).
    """
    batch, shape = configuration(model, q)
    task, damping = _checked_task(rows, damping)
    J = frame_jacobian(model, batch, link)
    Lambda, _ = _inertia_and_inverse(mass_matrix(model, batch), J, task, damping, link)
    return Lambda.reshape(*shape, *Lambda.shape[1:])


def task_space_terms(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    link: str,
    *,
    rows: Sequence[int] = ALL_ROWS,
    damping: float = 0.0,
) -> TaskSpaceTerms:
    """Return the task-space inertia Lambda of a link and its bias eta = mu + p.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        link: name of the link.
        rows: rows of the twist [w ; u] that form the task, by default all six; (3, 4, 5) is the
            motion of the link's origin.
        damping: zero for the exact inverse. With a positive value [1/sqrt(kg), or 1/sqrt(kg·m²)
            for rotations] the inertia stays below 1 / damping²; directions whose singular value of
            J R⁻ᵀ (M = R Rᵀ) is smaller than ``damping`` are damped.

    Returns:
        Lambda, mu, p and the inverse J_bar of the Jacobian in a :class:`TaskSpaceTerms`, which
        states shapes and units.

    Raises:
        InputError: where the exact inverse does not exist, because the smallest singular value of
            J R⁻ᵀ is at most :data:`SINGULAR` times the largest; where the mass matrix is singular;
            for an unknown link, invalid rows or damping; for arguments of the wrong shape or not
            finite.

    Source: LP eqs. 9.97 to 9.99; Khatib (1987). O(nv³).
    """
    (positions, velocities), shape = state(model, q, v=v)
    task, damping = _checked_task(rows, damping)
    J = frame_jacobian(model, positions, link)
    J_dot = frame_jacobian_rate(model, positions, velocities, link)
    M, C, _, g = dynamics_terms(model, positions, velocities)
    Lambda, J_bar = _inertia_and_inverse(M, J, task, damping, link)
    J_barT = J_bar.swapaxes(1, 2)
    drift = np.take(_times(J_dot, velocities), task, axis=1)
    mu = _times(J_barT, _times(C, velocities)) - _times(Lambda, drift)
    terms = (Lambda, mu, _times(J_barT, g), J_bar)
    return TaskSpaceTerms(*(term.reshape(*shape, *term.shape[1:]) for term in terms))


def _inertia_and_inverse(
    M: np.ndarray, J: np.ndarray, task: list[int], damping: float, link: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return Lambda (batch, k, k) and J_bar (batch, nv, k), by the singular values of J R⁻ᵀ."""
    R = cholesky_factor(M)
    J = np.take(J, task, axis=1)
    XT = np.linalg.solve(R, J.swapaxes(1, 2))
    k, nv = len(task), M.shape[-1]
    # With fewer joints than rows the list must include the singular values that are zero.
    padded = np.zeros((len(M), max(k, nv), k))
    padded[:, :nv] = XT
    _, sigma, UT = np.linalg.svd(padded, full_matrices=False)
    if damping == 0.0:
        _refuse_singular(sigma, J, task, link)
    root = UT / np.sqrt(sigma * sigma + damping * damping)[:, :, None]
    Lambda = root.swapaxes(1, 2) @ root
    return Lambda, np.linalg.solve(R.swapaxes(1, 2), XT @ Lambda)


def _refuse_singular(sigma: np.ndarray, J: np.ndarray, task: list[int], link: str) -> None:
    for i in np.flatnonzero(sigma[:, -1] <= SINGULAR * sigma[:, 0]):
        largest, smallest = sigma[i, 0], sigma[i, -1]
        which = f" in state {i} of {len(sigma)}" if len(sigma) > 1 else ""
        moving = int(np.count_nonzero(J[i].any(axis=0)))
        if moving == 0:
            advice = "It does not move at all in these rows; give another link or other rows"
        else:
            advice = f"Give damping={0.01 * largest:.1g}, say, or fewer rows than {task}"
            if moving < len(task):
                advice = f"Only {moving} degrees of freedom move it, in {len(task)} rows. {advice}"
        raise InputError(
            f"the task-space inertia of link {link!r} is infinite{which}: the smallest singular "
            f"value of its Jacobian, weighted by the mass matrix, is {smallest:.3g}, the largest "
            f"{largest:.3g}. {advice}"
        )


def _checked_task(rows: Sequence[int], damping: float) -> tuple[list[int], float]:
    task = [int(row) for row in rows]
    if not task or len(set(task)) != len(task) or not set(task) <= set(ALL_ROWS):
        raise InputError(f"rows are {task}; give some of 0 to 5, each once")
    damping = float(checked_array("damping", damping, ()))
    if damping < 0.0:
        raise InputError(f"damping is {damping}; it must not be negative")
    return task, damping


def _times(M: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (M @ x[..., None])[..., 0]
