"""Kinetic and potential energy of a robot at given states."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.arguments import configuration
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.momentum import momentum
from rbd_control.dynamics.sweep import new_sweep, place_bodies, place_inertias, position_offset


@compiled
def _potential_energies(packed, q, out):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    floating = position_offset(model) > 0
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        place_inertias(model, s)
        energy = 0.0
        for i in range(n):
            for k in range(3):
                first_moment = s.inertia[i, 1 + k]
                if floating:
                    first_moment += s.inertia[i, 0] * q[b, k]
                energy -= model.gravity[k] * first_moment
        out[b] = energy


def kinetic_energy(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the kinetic energy T = ½ vᵀ M(q) v.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (...) [J].

    Raises:
        InputError: for arguments of the wrong shape or not finite.
    """
    p = momentum(model, q, v)
    return 0.5 * np.sum(p * np.asarray(v, dtype=np.float64), axis=-1)


def potential_energy(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the potential energy V of the moving bodies, zero with all mass at the world's origin.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (...) [J], a scalar for a single state; its gradient is
        :func:`~rbd_control.dynamics.gravity_torque`.

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite.
    """
    batch, shape = configuration(model, q)
    out = np.empty(batch.shape[0])
    _potential_energies(model.packed, batch, out)
    return out.reshape(shape)[()]
