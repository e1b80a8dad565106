"""Mass matrices that are singular at a configuration, up to rounding.

The model is regular at almost all configurations (:mod:`~rbd_control.dynamics.regularity`). At
special ones it may not be, such as where the axes of a wrist of massless links line up. There the
pivot of a joint, its inertia while all later joints are free (with mimic joints: all earlier ones),
should be zero but is roundoff, and its reciprocal would be an acceleration of 1e16.
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.coriolis import mass_matrix
from rbd_control.dynamics.lanes import any_beyond, get_lane, lane_count, with_lane
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import add_row, dot, load6
from rbd_control.wording import quoted

ROUNDOFF = 1e-14
"""Ratio of a pivot to the inertia that it is computed from, up to which the pivot is roundoff.

At singular configurations the ratio is some 1e-16; fingers of real robots have 1e-7.
"""

_LARGEST = 1.0 / ROUNDOFF


@inlined
def void_roundoff(model, s, x, a):
    """Set the acceleration to NaN for each degree of freedom whose pivot is only roundoff.

    A pivot is roundoff if it is below :data:`ROUNDOFF` times the inertia that its joint carries.
    This inertia is taken about the origin of the sweep and with a radius of gyration of at least
    1 m, because the roundoff of positions counts as well.

    Args:
        model: ``Constants`` of the model.
        s, x: ``Sweep`` and ``Articulated`` workspaces of the state, after ``articulate``;
            ``s.inertia`` (without mimic joints) and ``x.u`` are overwritten.
        a: joint accelerations, (nv,) [rad/s² or m/s²], changed in place.
    """
    is_tree = model.bodies == model.nv
    for i in range(model.nv):
        x.u[i] = 0.0
    for j in range(model.parent.shape[0] - 1, -1, -1):
        parent = model.parent[j]
        if is_tree and parent >= 0:  # with mimics they are added up already
            add_row(s.inertia, parent, j)
        w, u = load6(s.Phi, j)
        mass = s.inertia[j, 0]
        inertia = s.inertia[j, 4] + s.inertia[j, 7] + s.inertia[j, 9] + mass
        x.u[model.dof[j]] += inertia * dot(w, w) + mass * dot(u, u)
    for i in range(model.nv):
        _void(a, i, x.u[i] * x.D[i] if is_tree else x.u[i] / x.M[i, i])


@inlined
def _void(a, i, ratio):
    """Set ``a[i]`` to NaN if ``ratio``, carried inertia per pivot, exceeds 1 / ROUNDOFF."""
    if any_beyond(ratio, _LARGEST):
        for lane in range(lane_count(ratio)):
            if abs(get_lane(ratio, lane)) > _LARGEST:
                a[i] = with_lane(a[i], lane, math.nan)


def singularity(model: Model, q: np.ndarray) -> str:
    """Return an error message for a singular mass matrix, naming the joint or the floating base.

    Among all states in ``q``, it names the degree of freedom with the smallest pivot relative to
    its diagonal entry of M (or a tenth of the largest entry, if that is more); none if this ratio
    is above 100 :data:`ROUNDOFF`.

    Args:
        model: the robot.
        q: joint positions, (count, nq) [rad or m].
    """
    message = "the mass matrix is singular at this configuration: massless bodies"
    M = mass_matrix(model, q)
    own = np.diagonal(M, axis1=1, axis2=2).copy()
    # A joint that carries nothing, or a point on its axis, has only roundoff to compare with.
    reference = np.maximum(own, 0.1 * own.max(axis=1, keepdims=True))
    pivots = np.empty_like(own)
    for k in range(model.nv - 1, -1, -1):
        pivots[:, k] = pivot = M[:, k, k]
        column = M[:, :k, k]
        is_regular = pivot > ROUNDOFF * reference[:, k]
        per_pivot = np.divide(1.0, pivot, out=np.zeros_like(pivot), where=is_regular)
        M[:, :k, :k] -= column[:, :, None] * column[:, None, :] * per_pivot[:, None, None]
    ratios = pivots / reference
    state, dof = divmod(int(np.argmin(ratios)), model.nv)
    if not ratios[state, dof] <= 100.0 * ROUNDOFF:
        return (
            "the acceleration is not finite: the torque, velocity or force is too large for the "
            "inertia of the robot"
        )
    joint = dof - (model.nv - len(model.joint_names))
    what = "the floating base" if joint < 0 else f"joint {quoted(model.joint_names[joint])}"
    return f"{message} leave {what} without inertia"
