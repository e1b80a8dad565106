"""Initial estimates of the adaptive control law: bodies and joint friction, with their bounds.

:mod:`~rbd_control.control.adaptive` defines the metric and the bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.adaptation_parameters import ALL, AdaptationParameters
from rbd_control.control.adaptive_step import Bodies, JointFriction
from rbd_control.control.arm_limits import ArmLimits
from rbd_control.dynamics import Model
from rbd_control.dynamics.inertia import pseudo_inertia
from rbd_control.errors import InputError
from rbd_control.robot.friction import CoulombViscousFriction, Friction

USUAL_FRICTION = 0.05
"""Unit of learned Coulomb friction, as a share of the effort limit of the joint.

Gears of robot arms lose about 3 to 12 % of their rated torque in friction. The unit of viscous
friction is the coefficient that gives the same torque at half the velocity limit.
"""

SLIDING = 0.02
"""Speed above which a joint slides, as a share of its velocity limit.

Below it, noise hides the direction of the motion, and friction exceeds Coulomb friction.
"""

LEAST = 1e-9
"""Least lower bound on the eigenvalues of W, a scaled pseudo-inertia, see :class:`Bodies`."""


def adapted_links(model: Model, adaptation: AdaptationParameters) -> tuple[str, ...]:
    """Return the names of the links whose inertial parameters the adaptive law learns.

    Args:
        model: the arm.
        adaptation: ``adapted_links`` selects the links. If it is empty, the result is the link of
            the last joint; if it is ``("all",)``, the links of all joints.

    Raises:
        InputError: for an unknown link, a link that is fixed to the world, a link named twice, or
            two links that are fixed to each other.
    """
    names = adaptation.adapted_links
    if not names:
        names = model.joint_links[-1:]
    elif names == (ALL,):
        names = model.joint_links
    rows = [model.link_index(name) for name in names]
    for name, row in zip(names, rows, strict=True):
        if row < 0:
            raise InputError(f"link {name!r} is fixed to the world: there is nothing to learn")
        if rows.count(row) > 1:
            raise InputError(f"link {name!r} is fixed to another of {', '.join(names)}: name one")
    return names


def adapted_bodies(
    model: Model, links: tuple[str, ...], adaptation: AdaptationParameters
) -> Bodies:
    """Return the bodies of the links, with the described masses and inertias as first estimates.

    The result also has the bounds of the estimates. Inertias that no body can have are replaced by
    the nearest possible ones.

    Args:
        model: the arm.
        links: result of :func:`adapted_links`.
        adaptation: ``largest_payload_mass`` and ``largest_payload_reach`` define scale and bounds.
    """
    rows = np.array([model.link_index(link) for link in links], dtype=np.int64)
    mass, reach = adaptation.largest_payload_mass, adaptation.largest_payload_reach
    # A solid ball has the inertia 2/5 m r² about its centre.
    ball = pseudo_inertia(mass, np.zeros(3), 0.4 * mass * reach**2 * np.eye(3))
    S, W = np.empty((2, len(links), 4, 4))
    cap, most = np.empty((len(links), 2, 4, 4)), np.empty((len(links), 2))
    for k, (link, row) in enumerate(zip(links, rows, strict=True)):
        arrays, placement = model.arrays, model.link_placement[link]
        P = np.empty((4, 4))
        P[:3, :3] = arrays.second_moment[row]
        P[:3, 3] = P[3, :3] = arrays.first_moment[row]
        P[3, 3] = arrays.mass[row]
        P = _positive(P)  # descriptions may have inertias that no body can have
        S[k] = np.linalg.cholesky(P + placement @ ball @ placement.T)
        inverse = np.linalg.inv(S[k])
        W[k] = _physical(inverse @ P @ inverse.T)
        # Linear in P, and so in W: the mass, and the second moment about the link's origin.
        origin = np.vstack((-np.eye(3), placement[:3, 3]))
        weights = np.diag([0.0, 0.0, 0.0, 1.0]), origin @ origin.T
        for c, (A, room) in enumerate(zip(weights, (mass, mass * reach**2), strict=True)):
            cap[k, c] = S[k].T @ A @ S[k]
            most[k, c] = (A * P).sum() + room
    # A described body may be a point or a rod, on the border of the physically possible bodies.
    least = np.maximum(0.5 * np.linalg.eigvalsh(W)[:, 0], LEAST)
    return Bodies(rows, S, W, W.copy(), least, W.copy(), cap, most)


def _positive(P: NDArray[np.float64], least: float = 0.0) -> NDArray[np.float64]:
    """Return the symmetric matrix P with smaller eigenvalues raised to ``least``."""
    values, vectors = np.linalg.eigh(P)
    if values[0] >= least:
        return P
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def _physical(W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return W made symmetric, with eigenvalues of at least :data:`LEAST`.

    Descriptions may have bodies without mass, and inertias that no body can have.
    """
    return _positive(0.5 * (W + W.T), LEAST)


def learned_friction(friction: Friction, limits: ArmLimits) -> JointFriction:
    """Return the friction that the adaptive law learns, which is zero at first, with its bounds.

    Args:
        friction: friction model of the fixed law, to which the learned friction is added.
        limits: limits of the arm. The friction of a joint without effort limit is not learned.
    """
    n, speed = limits.effort.size, limits.assumed_velocity
    unit = np.where(np.isfinite(limits.effort), USUAL_FRICTION * limits.effort, 0.0)
    # The coefficients of other classes, also of derived ones, have another meaning.
    given, scale = np.zeros((2, n)), np.zeros(n)
    if type(friction) is CoulombViscousFriction:
        given, scale = np.array([friction.coulomb, friction.viscous]), friction.velocity_scale
    return JointFriction(
        np.zeros((2, n)),
        np.zeros((2, n)),
        given,
        np.array([unit, 2.0 * unit / speed]),
        np.maximum(scale, 0.5 * SLIDING * speed),
        SLIDING * speed,
    )
