"""One step of a simulation: forward dynamics, integrated over a short time.

With ``a = forward_dynamics(q, v, tau - friction(v))`` and ``q_dot = v`` (for a floating base, the
rates of position and quaternion that correspond to its twist)::

    Euler                 q + h v,    v + h a                LP section 9.5
    semi-implicit Euler   q + h v+,   v+ = v + h a
    Runge-Kutta           four slopes, error h⁵ per step

with the duration h of the step. LP is Lynch & Park, *Modern Robotics*. The book uses the plain
Euler method, with which an oscillation at w rad/s gains the fraction h w² of its energy per second.
The semi-implicit method costs the same, and its energy stays bounded. All three methods are
explicit. For springs, dampers and Coulomb friction that are stiff relative to h, use
:mod:`rbd_control.simulation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.articulated_body import forward_dynamics
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.model import Model
from rbd_control.errors import InputError

Method = Literal["euler", "semi_implicit_euler", "runge_kutta"]


def configuration_rate(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the time derivative of q: v, except for the coordinates of a floating base.

    The position of the base has the rate ``R u``, its quaternion ``½ quaternion * [w, 0]``, with w
    and u in the axes of the base.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nq) [rad/s or m/s; 1/s for a quaternion].

    Raises:
        InputError: for arguments of the wrong shape or not finite.
    """
    (positions, velocities), shape = state(model, q, v=v)
    return _rate(model, positions, velocities).reshape(*shape, model.nq)


def simulation_step(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    dt: float,
    *,
    method: Method = "semi_implicit_euler",
    friction: Callable[[np.ndarray], np.ndarray] | None = None,
    wrenches: Mapping[str, Any] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the state after one step of ``dt`` under constant torques and wrenches.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        tau: joint torques, (..., nv) [N·m or N].
        dt: duration of the step [s].
        method: ``"euler"``, ``"semi_implicit_euler"`` or ``"runge_kutta"``.
        friction: returns friction torques (..., nv) for velocities (..., nv), with the sign of the
            velocity, such as ``CoulombViscousFriction(...).torque`` of
            :mod:`rbd_control.robot.friction`.
        wrenches: wrenches of the environment, ``{link: [moment ; force]}``, (..., 6) each [N·m, N],
            world-aligned at the link's origin.

    Returns:
        ``(q, v)`` after the step, (..., nq) and (..., nv); the base quaternion has unit length.

    Raises:
        InputError: for an unknown method or link, a ``dt`` that is not positive, a singular mass
            matrix, or arguments or friction torques of the wrong shape or not finite.

    Source: LP section 9.5, Euler Integration Algorithm for Forward Dynamics.
    """
    dt = float(checked_array("dt", dt, ()))
    if dt <= 0.0:
        raise InputError(f"dt is {dt} s; it must be positive")
    if method not in get_args(Method):
        raise InputError(f"no method {method!r}; methods are {', '.join(get_args(Method))}")
    (positions, velocities, torques), shape = state(model, q, v=v, tau=tau)
    tau = torques.reshape(*shape, model.nv)

    def slope(y: np.ndarray) -> np.ndarray:
        q, v = y[..., : model.nq], y[..., model.nq :]
        left = tau if friction is None else tau - _lost(friction, v)
        a = forward_dynamics(model, q, v, left, wrenches)
        return np.concatenate([configuration_rate(model, q, v), a], axis=-1)

    y = np.concatenate([positions, velocities], axis=-1).reshape(*shape, model.nq + model.nv)
    k1 = slope(y)
    if method == "runge_kutta":
        k2 = slope(y + 0.5 * dt * k1)
        k3 = slope(y + 0.5 * dt * k2)
        k4 = slope(y + dt * k3)
        y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    else:
        if method == "semi_implicit_euler":
            later = y[..., model.nq :] + dt * k1[..., model.nq :]
            k1[..., : model.nq] = configuration_rate(model, y[..., : model.nq], later)
        y = y + dt * k1
    if model.floating_base:
        y[..., 3:7] /= np.linalg.norm(y[..., 3:7], axis=-1, keepdims=True)
    return y[..., : model.nq].copy(), y[..., model.nq :].copy()


def _lost(friction: Callable[[np.ndarray], np.ndarray], v: np.ndarray) -> np.ndarray:
    lost = np.asarray(friction(v))
    if lost.shape != v.shape:
        raise InputError(f"friction gave shape {lost.shape} for velocities of shape {v.shape}")
    return lost


def _rate(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    if not model.floating_base:
        return v.copy()
    w, u = v[:, :3], v[:, 3:6]
    x, scalar = q[:, 3:6], q[:, 6:7]
    length = np.sum(x * x, axis=1, keepdims=True) + scalar * scalar
    turned = np.cross(x, u)
    forward = u + 2.0 / length * (scalar * turned + np.cross(x, turned))
    turning = 0.5 * (scalar * w + np.cross(x, w))
    losing = -0.5 * np.sum(x * w, axis=1, keepdims=True)
    return np.concatenate([forward, turning, losing, v[:, 6:]], axis=1)
