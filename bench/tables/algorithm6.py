"""E20 Algorithm 6, the modified articulated-body algorithm, line by line as printed.

E20 is Echeandia's thesis, see :mod:`bench.tables.e20`. The algorithm is wrong, because it omits
part of the effect of the rotors on M. The tables show its error.
:mod:`rbd_control.dynamics.articulated_body` contains the correction.
"""

from __future__ import annotations

import numpy as np

from bench.tables.cylinders import INERTIA, LENGTH, MASS, Cylinders
from rbd_control.dynamics import Rotor

PHI = np.eye(6)[2]


def printed_acceleration(
    mechanism: Cylinders,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    rotor: Rotor,
    *,
    ratio_at_joint: bool = True,
) -> np.ndarray:
    """Return the joint acceleration by Algorithm 6 for cylinders with parallel axes, (n,) [rad/s²].

    With ``ratio_at_joint`` false the force on the rotor acts on the joint without the gear ratio:
    lines 17 and 21 project it on Phi_i, where the source has Phi_Ri = n_i Phi_i. Two changes make
    the printed algorithm computable. Velocities (lines 6, 7) are computed before the forces that
    depend on them (lines 4, 5). I a_uc replaces the inverse of lines 12 and 13, which is equal.

    Args:
        mechanism: the cylinders.
        q, v, tau: positions, velocities and torques, (n,) each [rad, rad/s, N·m].
        rotor: the rotor at each joint.
        ratio_at_joint: see above.
    """
    n = mechanism.n
    inertia = _spatial_inertia(MASS, LENGTH / 2.0, INERTIA)
    I_R = _spatial_inertia(float(rotor.mass), 0.0, np.full(3, rotor.inertia))
    Phi_R = rotor.gear_ratio * PHI  # line 3
    at_joint = Phi_R if ratio_at_joint else PHI
    X, v_i, v_R, xi, xi_R, p_R = ([np.zeros(6)] * n for _ in range(6))
    IA, pA, D = [inertia] * n, [np.zeros(6)] * n, np.zeros(n)
    force, force_R = ([np.zeros(6)] * n for _ in range(2))
    for i, parent in enumerate(mechanism.parents):
        X[i] = _transform(q[i], LENGTH if parent >= 0 else 0.0)
        carried = X[i] @ v_i[parent] if parent >= 0 else np.zeros(6)
        v_i[i] = carried + PHI * v[i]  # line 6
        v_R[i] = carried + Phi_R * v[i]  # line 7
        pA[i] = -_cross(v_i[i]).T @ inertia @ v_i[i]  # line 4
        p_R[i] = -_cross(v_R[i]).T @ I_R @ v_R[i]  # line 5
        xi[i] = _cross(v_i[i]) @ PHI * v[i]  # line 8
        xi_R[i] = _cross(v_R[i]) @ Phi_R * v[i]  # line 9
    for i in range(n - 1, -1, -1):
        force[i] = PHI * tau[i] - pA[i]  # line 12, IA a_uc
        force_R[i] = PHI * tau[i] / rotor.gear_ratio - p_R[i]  # line 13, I_R a_uc_R
        U, U_R = IA[i] @ PHI, I_R @ Phi_R
        D[i] = PHI @ U + Phi_R @ U_R  # line 14
        parent = mechanism.parents[i]
        if parent >= 0:
            carried_inertia = IA[i] + I_R - np.outer(U, U) / D[i] - np.outer(U_R, U_R) / D[i]
            IA[parent] = IA[parent] + X[i].T @ carried_inertia @ X[i]  # line 16
            bias = pA[i] + p_R[i] + IA[i] @ xi[i] + I_R @ xi_R[i]
            bias = bias + U / D[i] * (PHI @ (force[i] - IA[i] @ xi[i]))
            bias = bias + U_R / D[i] * (at_joint @ (force_R[i] - I_R @ xi_R[i]))
            pA[parent] = pA[parent] + X[i].T @ bias  # line 17
    a, a_i = np.zeros(n), [np.zeros(6)] * n
    for i, parent in enumerate(mechanism.parents):
        carried = X[i] @ a_i[parent] if parent >= 0 else np.zeros(6)
        a[i] = PHI @ (force[i] - IA[i] @ (carried + xi[i])) / D[i]  # line 21
        a[i] += at_joint @ (force_R[i] - I_R @ (carried + xi_R[i])) / D[i]
        a_i[i] = carried + PHI * a[i] + xi[i]  # line 22
    return a


def _skew(x: np.ndarray) -> np.ndarray:
    return np.cross(np.eye(3), x)


def _cross(v: np.ndarray) -> np.ndarray:
    """Return the matrix of v x for motion vectors; that for forces is minus its transpose."""
    return np.block([[_skew(v[:3]), np.zeros((3, 3))], [_skew(v[3:]), _skew(v[:3])]])


def _transform(angle: float, reach: float) -> np.ndarray:
    """Return the transform of motion vectors from the frame before the joint to that after it."""
    c, s = np.cos(angle), np.sin(angle)
    E = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.block([[E, np.zeros((3, 3))], [-E @ _skew(np.array([reach, 0.0, 0.0])), E]])


def _spatial_inertia(mass: float, centre: float, moments: np.ndarray) -> np.ndarray:
    h = _skew(np.array([mass * centre, 0.0, 0.0]))
    about_origin = np.diag(moments) + mass * centre**2 * np.diag([0.0, 1.0, 1.0])
    return np.block([[about_origin, h], [h.T, mass * np.eye(3)]])
