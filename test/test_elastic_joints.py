"""Default gains on joints with elastic gears: stable, also with twice the feedback.

A joint is a rotor and a link with a spring between them, which has a damping ratio of 2 %::

    B th'' = tau - K (th - q) - d (th' - q')        M q'' = K (th - q) + d (th' - q')

Position and velocity are measured at the link or at the rotor. The law knows the inertia M only.
One simulation contains many joints, each with its own delay.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from rbd_control.control import ControllerParameters
from rbd_control.control.gains import (
    DAMPING_SHARE,
    FASTEST_DAMPING,
    LARGEST_BANDWIDTH,
    ROTOR,
)
from rbd_control.control.slotine_li import filtered

STIFFNESS, ROTORS, RATIO = 1e4, 0.3, 0.02
"""Stiffness [N·m/rad], inertia of the rotor [kg·m²] and damping ratio, about those of a Panda."""

INERTIA = np.array([4.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.02])
"""Inertia of the link [kg·m²]."""

EFFORT = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
"""Effort limits [N·m]."""

PERIOD = 0.001
"""Period of the joint states [s]."""


def growth(delays: np.ndarray, feedback: float, at_link: bool, resonance: float) -> np.ndarray:
    """Return the ratio of the largest motions in the last and the second of three seconds.

    Args:
        delays: (k,) delays from a sample to the torque, in periods; the torque is then held.
        feedback: factor of the default feedback.
        at_link: whether the link is measured, or else the rotor.
        resonance: the parameter of this name [Hz].

    Returns:
        (k, joints).
    """
    M, delay = np.tile(INERTIA, len(delays)), np.repeat(delays, len(INERTIA))
    n, each, effort = len(M), np.arange(len(M)), np.tile(EFFORT, len(delays))
    rate = ControllerParameters().damping_rate
    damping = np.minimum(DAMPING_SHARE * effort, FASTEST_DAMPING * M)
    Lambda = np.minimum((damping / M + rate) / 2.0, LARGEST_BANDWIDTH)
    w = 2.0 * np.pi * resonance * np.sqrt(1.0 + ROTOR / M)
    K_D = damping + rate * M
    steps = [exact_step(m) for m in M]
    A, b = np.array([s[0] for s in steps]), np.array([s[1] for s in steps])
    x = np.zeros((n, 4))
    x[:, (0, 2)] = 0.01  # displaced
    x[:, 1] = 0.1  # and the spring oscillates
    memories, torques = np.zeros((2, 4, n)), np.zeros((64, n))
    sizes = np.zeros((3000, n))
    for k in range(len(sizes)):
        e, e_dot = (x[:, 2], x[:, 3]) if at_link else (x[:, 0], x[:, 1])
        if resonance > 0.0:
            dt = PERIOD if k else 0.0
            e, e_dot = (
                filtered(np.ascontiguousarray(y), w, dt, memory)
                for y, memory in zip((e, e_dot), memories, strict=True)
            )
        torques[k % 64] = -feedback * (M * Lambda * e_dot + K_D * (e_dot + Lambda * e))
        acting = np.where(k >= delay, torques[(k - delay) % 64, each], 0.0)
        x = np.clip(np.einsum("nij,nj->ni", A, x) + b * acting[:, None], -1e9, 1e9)
        sizes[k] = np.abs(x[:, 1]) + np.abs(x[:, 3])
    late, early = sizes[2000:].max(axis=0), sizes[1000:2000].max(axis=0)
    # The largest state of the simulation is bounded.
    return np.where(late > 1e6, np.inf, late / early).reshape(len(delays), -1)


def exact_step(M: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the transition of ``(th, th', q, q')`` over a period, and the effect of the torque."""
    both = 1.0 / (1.0 / M + 1.0 / ROTORS)
    d = 2.0 * RATIO * np.sqrt(STIFFNESS * both)
    spring = np.array([STIFFNESS, d, -STIFFNESS, -d])
    F = np.zeros((5, 5))
    F[0, 1] = F[2, 3] = 1.0
    F[1, :4], F[3, :4], F[1, 4] = -spring / ROTORS, spring / M, 1.0 / ROTORS
    step = expm(PERIOD * F)
    return step[:4, :4], step[:4, 4]


@pytest.mark.parametrize("feedback", [1.0, 2.0])
def test_measured_at_the_links_twice_the_default_gains_are_stable(feedback: float) -> None:
    assert (growth(np.arange(16), feedback, True, ControllerParameters().resonance) < 1.0).all()


def test_measured_at_the_rotors_the_default_gains_are_stable() -> None:
    resonance = ControllerParameters().resonance
    assert (growth(np.arange(16), 1.0, False, resonance) < 1.0).all()
    assert (growth(np.arange(5), 2.0, False, resonance) < 1.0).all()


@pytest.mark.parametrize(("at_link", "delay"), [(True, 0), (True, 3), (False, 8)])
def test_without_the_filter_heavy_joints_resonate(at_link: bool, delay: int) -> None:
    """At the links without any delay; at the rotors because the loop is late."""
    assert (growth(np.array([delay]), 1.0, at_link, 0.0)[0, :3] >= 1.0).all()
