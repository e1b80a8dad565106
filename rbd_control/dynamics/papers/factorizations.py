"""Other Coriolis matrices: EW21's Algorithm 1 with any body-level factor, and its Jacobian form.

EW21 is Echeandia & Wensing, ASME J. Comput. Nonlinear Dyn. 2021. Many matrices C give the same
vector ``C v``. A body-level factor with ``B(v, I) v = v x* I v`` and ``B + Bᵀ = I_dot`` (EW21
Definition 4), for a body with twist v and inertia I, gives a C for which ``M_dot - 2 C`` is
skew-symmetric (Prop. 1). Of the two factors here, only the first gives the C of the Christoffel
symbols (Prop. 2):

- ``"christoffel"``: ½[(v x*) I + (I v) x̄* - I (v x)], EW21 eq. 10 (Niemeyer & Slotine),
- ``"cross"``: (v x*) I, EW21 eq. 9; admissible, because its symmetric part equals that of the
  first.

The functions use dense 6x6 matrices in numpy and serve comparisons. For all other purposes use
:func:`~rbd_control.dynamics.coriolis_matrix`.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.inertia import cross_matrix, spatial_inertia
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.sweep import move_bodies, new_sweep, place_bodies, place_inertias
from rbd_control.errors import InputError

FACTORIZATIONS = ("christoffel", "cross")


def motion_cross(v: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``v x`` for a twist v = [w; u], (6,) (EW21 Appendix A)."""
    result = np.zeros((6, 6))
    result[:3, :3] = result[3:, 3:] = cross_matrix(v[:3])
    result[3:, :3] = cross_matrix(v[3:])
    return result


def force_cross(v: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``v x*``, -(v x)ᵀ, for a twist v, (6,) (EW21 eq. 8)."""
    return -motion_cross(v).T


def force_cross_bar(f: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``f x̄*`` for a spatial force f = [moment; force], (6,).

    It is defined by (f x̄*) v = (v x*) f for every twist v (EW21 Appendix A).
    """
    result = np.zeros((6, 6))
    result[:3, :3] = -cross_matrix(f[:3])
    result[:3, 3:] = result[3:, :3] = -cross_matrix(f[3:])
    return result


def body_factor(v: np.ndarray, inertia: np.ndarray, factorization: str) -> np.ndarray:
    """Return the body-level factor B(v, I) of one body, (6, 6), defined in the module's docstring.

    Args:
        v: twist of the body, [w; u], (6,).
        inertia: spatial inertia of the body, (6, 6), about the same origin and in the same axes.
        factorization: ``"christoffel"`` or ``"cross"``.

    Raises:
        InputError: for an unknown factorisation, listing the choices.
    """
    if factorization == "christoffel":
        return 0.5 * (
            force_cross(v) @ inertia + force_cross_bar(inertia @ v) - inertia @ motion_cross(v)
        )
    if factorization == "cross":
        return force_cross(v) @ inertia
    raise InputError(f"no factorisation {factorization!r}; choices are {', '.join(FACTORIZATIONS)}")


@compiled
def _outward(packed, q, v, Phi, Phi_dot, velocity, inertia):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    Phi[:] = s.Phi
    Phi_dot[:] = s.Phi_dot
    velocity[:] = s.velocity
    inertia[:] = s.inertia


class _Bodies:
    """Motion subspaces, their rates, twists, inertias and factors of all rows at one state.

    Rows are those of ``ModelArrays``. :func:`_algorithm_1` changes inertias and factors.
    """

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray, factorization: str) -> None:
        n = model.arrays.parent.size
        self.parent, self.dof = model.arrays.parent, model.arrays.dof
        self.Phi, self.Phi_dot, self.velocity = (np.empty((n, 6)) for _ in range(3))
        numbers = np.empty((n, 10))
        _outward(model.packed, q, v, self.Phi, self.Phi_dot, self.velocity, numbers)
        self.inertia = np.empty((n, 6, 6))
        for i, (m, hx, hy, hz, xx, xy, xz, yy, yz, zz) in enumerate(numbers):
            rows = [xx, xy, xz, hx], [xy, yy, yz, hy], [xz, yz, zz, hz], [hx, hy, hz, m]
            self.inertia[i] = spatial_inertia(np.array(rows))
        self.factor = np.empty((n, 6, 6))
        for i in range(n):
            self.factor[i] = body_factor(self.velocity[i], self.inertia[i], factorization)


def admissible_coriolis_matrix(
    model: Model, q: np.ndarray, v: np.ndarray, factorization: str = "christoffel"
) -> np.ndarray:
    """Return the Coriolis matrix C that follows from a choice of the body-level factor.

    ``C v`` is the same for every choice, and ``M_dot - 2 C`` is skew-symmetric.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        factorization: ``"christoffel"`` for the C of the Christoffel symbols, or ``"cross"``.

    Returns:
        (..., nv, nv) [torque or force per unit of joint velocity].

    Raises:
        InputError: for an unknown factorisation, or arguments of the wrong shape or not finite.

    Source: EW21 Algorithm 1 with the factor of line 6 replaced, eq. 18; O(Nd).
    """
    return _each_state(model, q, v, factorization, _algorithm_1)


def coriolis_matrix_from_body_jacobians(
    model: Model, q: np.ndarray, v: np.ndarray, factorization: str = "christoffel"
) -> np.ndarray:
    """Return the Coriolis matrix C = sum over bodies of J_kᵀ (B_k J_k + I_k J_dot_k).

    J_k is the Jacobian, I_k the inertia and B_k the body-level factor of body k. Arguments, result
    and errors are those of :func:`admissible_coriolis_matrix`, which uses a recursion instead.

    Source: EW21 Remark 4, eq. 30; O(N³).
    """
    return _each_state(model, q, v, factorization, _body_jacobian_sum)


def _each_state(model, q, v, factorization, compute):
    (batch, velocities), shape = state(model, q, v=v)
    C = np.empty((batch.shape[0], model.nv, model.nv))
    for b in range(batch.shape[0]):
        C[b] = compute(_Bodies(model, batch[b], velocities[b], factorization), model.nv)
    return C.reshape(*shape, model.nv, model.nv)


def _algorithm_1(s: _Bodies, nv: int) -> np.ndarray:
    C = np.zeros((nv, nv))
    for j in reversed(range(len(s.parent))):
        F1 = s.inertia[j] @ s.Phi_dot[j] + s.factor[j] @ s.Phi[j]
        F2 = s.inertia[j] @ s.Phi[j]
        F3 = s.factor[j].T @ s.Phi[j]
        C[s.dof[j], s.dof[j]] += s.Phi[j] @ F1
        i = s.parent[j]
        while i >= 0:
            C[s.dof[i], s.dof[j]] += s.Phi[i] @ F1
            C[s.dof[j], s.dof[i]] += s.Phi_dot[i] @ F2 + s.Phi[i] @ F3
            i = s.parent[i]
        if s.parent[j] >= 0:
            s.inertia[s.parent[j]] += s.inertia[j]
            s.factor[s.parent[j]] += s.factor[j]
    return C


def _body_jacobian_sum(s: _Bodies, nv: int) -> np.ndarray:
    C = np.zeros((nv, nv))
    for k in range(len(s.parent)):
        J, J_dot = np.zeros((6, nv)), np.zeros((6, nv))
        i = k
        while i >= 0:
            J[:, s.dof[i]] += s.Phi[i]
            J_dot[:, s.dof[i]] += s.Phi_dot[i]
            i = s.parent[i]
        C += J.T @ (s.factor[k] @ J + s.inertia[k] @ J_dot)
    return C
