"""Forward dynamics of models with mimic joints: M a = tau - h, with a dense factorization of M.

M and the bias torque h = C v + g are computed by the composite-rigid-body and Newton-Euler
algorithms, in which each body contributes to the degree of freedom that moves it, so they are exact
for any number of mimic joints. The factorization costs O(nv³), which is negligible for an arm with
a hand.
"""

from __future__ import annotations

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.spatial import (
    accumulate6,
    add6,
    add_row,
    add_scaled6,
    dot6,
    inertia_times,
    load6,
    load_inertia,
    store6,
)


@inlined
def solve_with_mimics(model, v, tau, s, x, a):
    """Solve M a = tau - h for the accelerations ``a``; overwrites ``s.inertia`` and ``x``.

    Afterwards ``s.inertia`` holds the composite inertias, and the diagonal of ``x.M`` the pivots D
    of M = L D Lᵀ. The result is not finite where a pivot is zero.

    Args:
        model: ``Constants`` of the model.
        v: joint velocities, (nv,) [rad/s or m/s].
        tau: joint torques, (nv,) [N·m or N].
        s: ``Sweep`` of the state, with the inertia of each single body.
        x: ``Articulated`` workspace; ``force`` holds the bias force ``V x* I V`` of each body
            with twist V, minus the external wrenches on the body.
        a: (nv,) result [rad/s² or m/s²].
    """
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    n = model.parent.shape[0]
    for i in range(n):
        parent = model.parent[i]
        b_parent = falling if parent < 0 else load6(x.rate, parent)
        b_i = add_scaled6(b_parent, v[model.dof[i]], load6(s.Phi_dot, i))
        store6(x.rate, i, b_i)
        store6(x.force, i, add6(load6(x.force, i), inertia_times(load_inertia(s.inertia, i), b_i)))
    for i in range(model.nv):
        a[i] = tau[i]
        for j in range(model.nv):
            x.M[i, j] = 0.0
    for j in range(n - 1, -1, -1):
        Phi_j, dof_j, force_j = load6(s.Phi, j), model.dof[j], load6(x.force, j)
        a[dof_j] -= dot6(Phi_j, force_j)
        F = inertia_times(load_inertia(s.inertia, j), Phi_j)
        x.M[dof_j, dof_j] += dot6(Phi_j, F)
        i = model.parent[j]
        while i >= 0:
            dof_i = model.dof[i]
            M_ij = dot6(load6(s.Phi, i), F)
            x.M[dof_i, dof_j] += M_ij
            x.M[dof_j, dof_i] += M_ij
            i = model.parent[i]
        if model.parent[j] >= 0:
            accumulate6(x.force, model.parent[j], force_j)
            add_row(s.inertia, model.parent[j], j)
    _solve_in_place(x.M, a, model.nv)


@inlined
def _solve_in_place(M, b, n):
    """Solve M y = b for a symmetric M by M = L D Lᵀ, without square roots.

    y replaces ``b``, and D and L the lower triangle of ``M``, which alone is read.
    """
    for j in range(n):
        for k in range(j):
            M[j, j] -= M[j, k] * M[j, k] * M[k, k]
        for i in range(j + 1, n):
            for k in range(j):
                M[i, j] -= M[i, k] * M[j, k] * M[k, k]
            M[i, j] /= M[j, j]
        for k in range(j):
            b[j] -= M[j, k] * b[k]
    for j in range(n - 1, -1, -1):
        b[j] /= M[j, j]
        for i in range(j + 1, n):
            b[j] -= M[i, j] * b[i]
