"""The wrench at the tool, from the residual, with its covariance.

**Six components with their covariance.**

A wrench ``w = [m; F]`` that the environment applies at the origin of the tool frame leaves the
residual ``r = Jᵀ w + n``, with J the Jacobian of the frame, in the axes of the frame, and n the
noise of the residual, of covariance R. The prior of each component of w is normal with mean zero
and a given standard deviation, which gives the covariance P. The estimate is the
posterior mean of w, linear least squares with a prior (Tarantola 2005, chapter 3)::

    S = (P⁻¹ + J R⁻¹ Jᵀ)⁻¹        w = S J R⁻¹ r

This is damped generalised least squares. Components that the joint torques determine well are
hardly damped. Near a singularity the estimate of the unobservable component fades to zero without a
jump, and its variance in S grows to that of the prior. On average a true wrench w is estimated as
``(1 - S P⁻¹) w``.

There is no filter beyond the observer, so the estimate has the delay of the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.arguments import link_attachment, state
from rbd_control.dynamics.batches import over_states
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.kinematics import link_point
from rbd_control.dynamics.small_systems import factor_cholesky, solve_factored
from rbd_control.dynamics.spatial import add, cross, dot, load6, load_matrix, transform
from rbd_control.dynamics.sweep import new_sweep, place_bodies
from rbd_control.errors import InputError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.isolation import residual_noise
from rbd_control.estimation.isolation_kernel import PROPORTIONAL
from rbd_control.estimation.thresholds import with_default_thresholds

ROUNDING = 1e-13
"""Least prior precision, as a fraction of the measured precision, so that S can be computed."""


@inlined
def _fill_jacobian(model, s, body, placement, units, A):
    """Write Jᵀ (nv, 6) of a frame of a body, each column times its unit; J has frame axes.

    Bodies whose joints mimic one another share a degree of freedom, so their contributions add up.
    """
    point = link_point(s, body, (placement[0, 3], placement[1, 3], placement[2, 3]))
    A[:] = 0.0
    for c in range(3):
        column = (placement[0, c], placement[1, c], placement[2, c])
        axis = transform(load_matrix(s.R, body), column)
        i = body
        while i >= 0:
            angular, linear = load6(s.Phi, i)
            dof = model.dof[i]
            A[dof, c] += units[c] * dot(axis, angular)
            A[dof, 3 + c] += units[3 + c] * dot(axis, add(linear, cross(angular, point)))
            i = model.parent[i]


@inlined
def _fill_noise(covariance, doubt, residual, R):
    """Write the covariance (nv, nv) of the noise of the residual."""
    for i in range(R.shape[0]):
        for j in range(R.shape[0]):
            R[i, j] = covariance[i, j]
        R[i, i] += doubt[i] ** 2 + (PROPORTIONAL * residual[i]) ** 2


@inlined
def _whiten(L, y, A):
    """Divide y (nv,) and A (nv, 6) by the Cholesky factor L, in place."""
    for i in range(L.shape[0]):
        for j in range(i):
            y[i] -= L[i, j] * y[j]
            for c in range(6):
                A[i, c] -= L[i, j] * A[j, c]
        y[i] /= L[i, i]
        for c in range(6):
            A[i, c] /= L[i, i]


@inlined
def _fill_normal_equations(A, y, N, x):
    """Write 1 + AᵀA (6, 6), lower triangle, and Aᵀy (6,)."""
    trace = 0.0
    for c in range(6):
        x[c] = 0.0
        for i in range(A.shape[0]):
            x[c] += A[i, c] * y[i]
        for d in range(c + 1):
            N[c, d] = 0.0
            for i in range(A.shape[0]):
                N[c, d] += A[i, c] * A[i, d]
        trace += N[c, c]
    for c in range(6):
        N[c, c] += 1.0 + ROUNDING * trace


@compiled
def estimate_wrenches(
    packed, body, placement, prior, covariance, q, residual, doubt, wrench, uncertainty
):
    """Fill in wrenches (k, 6) and their covariances (k, 6, 6); return whether all are finite.

    Args:
        packed: ``packed`` of the model.
        body, placement: row of the body, and placement of the frame in it, (4, 4).
        prior: prior standard deviations of the wrench ``[moment; force]``, (6,) [N·m, N].
        covariance: of the residual without contact, (nv, nv) [(N·m)² or N²].
        q: joint positions, (k, nq) [rad or m].
        residual: (k, nv) [N·m or N].
        doubt: standard deviation that the motion adds to each residual, (k, nv) [N·m or N].
        wrench, uncertainty: wrenches, (k, 6) [N·m, N], and their covariances, (k, 6, 6), written.
    """
    model, n = unpacked(packed), covariance.shape[0]
    s = new_sweep(model.parent.shape[0])
    R, A, y = np.empty((n, n)), np.empty((n, 6)), np.empty(n)
    N, x = np.empty((6, 6)), np.empty(6)
    finite = True
    for k in range(q.shape[0]):
        place_bodies(model, q[k], s)
        # In units of the prior the covariance of the wrench before the measurement is 1.
        _fill_jacobian(model, s, body, placement, prior, A)
        _fill_noise(covariance, doubt[k], residual[k], R)
        factor_cholesky(R)
        for i in range(n):
            y[i] = residual[k, i]
        _whiten(R, y, A)
        _fill_normal_equations(A, y, N, x)
        factor_cholesky(N)
        solve_factored(N, x)
        for c in range(6):
            wrench[k, c] = prior[c] * x[c]
            finite &= np.isfinite(wrench[k, c])
        for c in range(6):
            x[:] = 0.0
            x[c] = prior[c]
            solve_factored(N, x)
            for d in range(6):
                uncertainty[k, c, d] = prior[d] * x[d]
                finite &= np.isfinite(uncertainty[k, c, d])
    return finite


LARGEST_DAMPING = 0.1
"""A direction counts as observable while its estimate is damped by at most this fraction."""


@dataclass(frozen=True, eq=False)
class ToolWrench:
    """Wrenches that the environment applies to the robot at one frame, with their covariances.

    Attributes:
        frame: the frame: wrenches are about its origin, with components along its axes.
        wrench: ``[moment; force]``, (..., 6) [N·m, N].
        covariance: of ``wrench``, (..., 6, 6) [(N·m)², N²·m, N²].
        prior: standard deviations of ``wrench`` before anything was measured, (6,) [N·m, N].
    """

    frame: str
    wrench: np.ndarray
    covariance: np.ndarray
    prior: np.ndarray

    @property
    def moment(self) -> np.ndarray:
        """(..., 3) moment about the origin of the frame, along its axes [N·m]."""
        return self.wrench[..., :3]

    @property
    def force(self) -> np.ndarray:
        """(..., 3) force along the axes of the frame [N]."""
        return self.wrench[..., 3:]

    @property
    def damping(self) -> np.ndarray:
        """(..., 6) fraction by which the estimate is damped in six directions, the smallest first.

        The fractions are the eigenvalues of the covariance in units of the prior deviations: 0 for
        no damping, 1 for a direction that the joint torques do not determine.
        """
        return np.linalg.eigvalsh(self.covariance / np.outer(self.prior, self.prior))

    @property
    def observable(self) -> np.ndarray:
        """(...) number of the six directions that the joint torques determine.

        They are damped by at most :data:`LARGEST_DAMPING`.
        """
        return (self.damping <= LARGEST_DAMPING).sum(axis=-1)


class ToolWrenchEstimator:
    """Estimates the wrench at one frame of an arm from residuals; see the top of the module.

    The estimator attributes the whole residual to a wrench at this frame. A contact elsewhere on
    the arm therefore gives a wrong wrench.

    Args:
        model: the robot.
        frame: name of the link at whose origin, and along whose axes, the wrench is given.
        covariance: of the residual without contact, (nv, nv) [(N·m)² or N²].
        prior_force: prior standard deviation of each component of the force [N].
        prior_moment: prior standard deviation of each component of the moment [N·m].

    Raises:
        InputError: for an unknown frame, and for a frame that is fixed to the world.
    """

    def __init__(
        self,
        model: Model,
        frame: str,
        covariance: np.ndarray,
        prior_force: float = DetectorParameters.tool_wrench_prior_force,
        prior_moment: float = DetectorParameters.tool_wrench_prior_moment,
    ) -> None:
        body, placement = link_attachment(model, frame)
        if body < 0:
            raise InputError(
                f"{frame!r} is fixed to the world: no joint torque shows a wrench on it; give a "
                "link that moves"
            )
        self.frame = frame
        self._model, self._body = model, body
        self._placement = np.array(placement, dtype=float)
        self._covariance = np.array(covariance, dtype=float)
        self._prior = np.repeat([float(prior_moment), float(prior_force)], 3)

    @classmethod
    def of(cls, model: Model, parameters: DetectorParameters) -> ToolWrenchEstimator:
        """Return the estimator that ``parameters`` describe.

        Args:
            model: the robot.
            parameters: of the detector, with a ``tool_frame``; without ``residual_covariance`` the
                noise is estimated from the contact thresholds.

        Raises:
            InputError: for a ``tool_frame`` that is unknown or fixed to the world; the message
                names the parameter.
            ParameterError: for a per-joint parameter of the wrong length.
        """
        n = model.nv
        threshold = with_default_thresholds(parameters, model).for_joints("contact_threshold", n)
        try:
            return cls(
                model,
                parameters.tool_frame,
                residual_noise(parameters.covariance(n), threshold),
                parameters.tool_wrench_prior_force,
                parameters.tool_wrench_prior_moment,
            )
        except InputError as error:
            raise InputError(f"tool_frame: {error}") from None

    def estimate(
        self, q: np.ndarray, residual: np.ndarray, doubt: np.ndarray | None = None
    ) -> ToolWrench:
        """Return the wrench for each residual.

        Args:
            q: joint positions, (..., nq) [rad or m].
            residual: r, (..., nv) [N·m or N].
            doubt: standard deviation of the noise that the motion adds to each residual,
                (..., nv) [N·m or N]; zero by default.

        Returns:
            The wrenches, (..., 6), with their covariances, (..., 6, 6). Their leading axes are
            those of the arguments.

        Raises:
            InputError: for arguments of the wrong shape or not finite, and where the result is not
                finite.
        """
        zero = np.zeros(self._model.nv) if doubt is None else doubt
        (batch, *vectors), shape = state(self._model, q, residual=residual, doubt=zero)
        found = self._run(batch, *vectors)
        if found is None:
            raise InputError("the wrench is not finite: the residuals are too large")
        wrench, covariance = found
        return ToolWrench(
            self.frame, wrench.reshape(*shape, 6), covariance.reshape(*shape, 6, 6), self._prior
        )

    def of_sample(
        self, q: np.ndarray, residual: np.ndarray, doubt: np.ndarray
    ) -> ToolWrench | None:
        """Return the wrench of one sample, without checks.

        Args:
            q, residual, doubt: as for :meth:`estimate`, (nq,) and (nv,) each, C-contiguous.

        Returns:
            The wrench; None where a number is not finite.
        """
        found = self._run(q[None], residual[None], doubt[None])
        if found is None:
            return None
        wrench, covariance = found
        return ToolWrench(self.frame, wrench[0], covariance[0], self._prior)

    def _run(
        self, q: np.ndarray, residual: np.ndarray, doubt: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return wrenches (k, 6) and covariances (k, 6, 6); None where a number is not finite."""
        count = q.shape[0]
        wrench, covariance = np.empty((count, 6)), np.empty((count, 6, 6))
        shared = (self._model.packed, self._body, self._placement, self._prior, self._covariance)
        batched = [q, residual, doubt, wrench, covariance]
        finite = over_states(estimate_wrenches, shared, count, batched)
        return (wrench, covariance) if finite else None
