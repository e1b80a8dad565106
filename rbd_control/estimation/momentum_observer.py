"""The generalised-momentum residual: the external torque, through a first-order filter.

De Luca & Mattone (2003); De Luca, Albu-Schaeffer, Haddadin & Hirzinger (2006); EW21 section 1 for
the part the Coriolis matrix plays. From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext``::

    r = K_O ( p(t) - p(0) - integral of (tau - tau_friction + Cᵀ v - g + r) dt )
    so  r_dot = K_O (tau_ext - r)

No acceleration is needed, and the mass matrix is not inverted.
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics import Model, momentum_terms
from rbd_control.errors import InputError
from rbd_control.friction import Friction, NoFriction


class MomentumObserver:
    """First-order momentum observer, to be fed every sample with the time since the last one.

    Discretisation. Over one interval the momentum balance gives the mean external torque exactly::

        x_k = (p_k - p_(k-1)) / dt - mean of (tau - tau_friction + Cᵀ v - g)

    with the mean by the trapezoidal rule, and the filter ``r_dot = K_O (x - r)`` is solved exactly
    for that constant input::

        r_k = exp(-K_O dt) r_(k-1) + (1 - exp(-K_O dt)) x_k

    The pole lies in (0, 1) for every ``dt``, so the observer is stable at any rate and over any
    jitter (explicit Euler rings from ``K_O dt > 1``, at 30 Hz from 30 1/s, and diverges from 2).
    Its gain at rest is one, so it is unbiased; each step uses its own measured ``dt``.

    Args:
        model: the robot.
        gain: K_O [1/s], a number or (nv,), positive; 1 / K_O is the time constant.
        friction: tau_friction(v); none by default.

    Raises:
        InputError: for a gain of the wrong shape or not positive.
    """

    def __init__(
        self, model: Model, gain: float | np.ndarray, friction: Friction | None = None
    ) -> None:
        gains = np.asarray(gain, dtype=float)
        if gains.shape not in ((), (model.nv,)):
            raise InputError(f"gain has shape {gains.shape} but the model has nv = {model.nv}")
        if not np.all(np.isfinite(gains) & (gains > 0.0)):
            raise InputError(f"gain must be positive and finite, not {gain}")
        self.model = model
        self.gain: np.ndarray = np.broadcast_to(gains, (model.nv,)).copy()
        self._friction: Friction = friction or NoFriction()
        self.reset()

    def reset(self) -> None:
        """Start again: the next sample sets p(0), and r is zero there."""
        self.residual = np.zeros(self.model.nv)
        self._p: np.ndarray | None = None
        self._rate = np.zeros(self.model.nv)

    def update(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, dt: float) -> np.ndarray:
        """Take one sample in and return the residual.

        Args:
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s].
            tau: measured joint torques, (nv,) [N·m or N].
            dt: time since the previous sample [s]; ignored for the first one.

        Returns:
            r, (nv,) [N·m or N]: the torque the environment applies, filtered.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or ``dt`` not positive.
                The observer then is as it was before.
        """
        torque = np.asarray(tau, dtype=float)
        if torque.shape != (self.model.nv,) or not np.isfinite(torque).all():
            raise InputError(f"tau must be {self.model.nv} finite numbers, not {tau}")
        p, CTv, g = momentum_terms(self.model, q, v)
        rate = torque - self._friction.torque(np.asarray(v, dtype=float)) + CTv - g
        if self._p is not None:
            if not (math.isfinite(dt) and dt > 0.0):
                raise InputError(f"dt is {dt} s; it must be positive and finite")
            external = (p - self._p) / dt - 0.5 * (rate + self._rate)
            decay = np.exp(-self.gain * dt)
            self.residual = decay * self.residual + (1.0 - decay) * external
        self._p, self._rate = p, rate
        return self.residual.copy()
