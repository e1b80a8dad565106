"""Base class of the momentum observers: momentum balance, state and blocks around a filter.

An observer processes samples and returns the residual ``r``, the low-pass-filtered external torque.
It needs no acceleration and does not invert the mass matrix.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.arguments import state
from rbd_control.errors import InputError
from rbd_control.estimation.linear_filters import (
    DESIGN,
    KALMAN,
    STATE,
    filter_balance,
    filter_signal,
)
from rbd_control.estimation.momentum_balance import Balance, MomentumBalance
from rbd_control.robot.friction import Friction

WARM_UP = 4000
"""Number of samples after which the gain of a Kalman filter has converged."""


class Observer:
    """A momentum observer; derived classes select the filter.

    Over one interval the momentum balance gives the mean external torque exactly
    (:mod:`~rbd_control.estimation.momentum_balance`), and the filter is solved exactly for that
    constant input (:mod:`~rbd_control.estimation.linear_filters`): observers are stable at any rate
    and over any jitter, unbiased, and each step uses its own measured ``dt``.

    The contact detector runs the same steps with additional checks in one compiled loop; it uses
    ``kind``, ``design``, ``state`` and ``balance`` of this class.

    Args:
        model: the robot.
        friction: tau_friction(v); None for none.
        **design: constants of the filter by the fields of ``DESIGN`` in
            :mod:`~rbd_control.estimation.linear_filters`, (nv,) each.

    Attributes:
        model: the robot.
        kind: kind of filter: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: (nv,) of ``DESIGN``, constants of the filter.
        state: (nv,) of ``STATE``, filter state and last sample; see :meth:`share`.
        balance: the momentum balance, which converts positions, velocities and efforts.
    """

    kind: ClassVar[int]

    def __init__(self, model: Model, friction: Friction | None, **design: np.ndarray) -> None:
        self.model = model
        self.design = np.zeros(model.nv, DESIGN)
        for name, values in design.items():
            self.design[name] = values
        self.state = np.zeros(model.nv, STATE)
        self.balance = MomentumBalance(model, friction)
        self._rise = 0.0, np.zeros((0, model.nv))
        self.reset()

    def reset(self) -> None:
        """Restart the observer: the next sample begins the first interval, with r = 0."""
        self.state[:] = 0.0
        self._has_begun = False

    @property
    def residual(self) -> np.ndarray:
        """Residual r (filtered external torque) after the last sample, a copy, (nv,) [N·m or N]."""
        return self.state["residual"].copy()

    def share(self, state: np.ndarray) -> None:
        """Use the state array of another observer of the same arm, and continue from its state.

        Args:
            state: (nv,) of ``STATE``; this observer changes it in place from now on.
        """
        self.state = state

    def restart_filter(self) -> None:
        """Restart the filter from the present residual, for example after a change of its kind.

        The residual and the last sample are kept; slopes, errors and covariances become zero.
        """
        for name in set(STATE.names or ()) - {"residual", "p", "rate", "drive"}:
            self.state[name] = 0.0

    def lag(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Return the delayed torque of the motors less the torque that is not delayed.

        It is zero without a delay of the velocity. Arguments are not checked.

        Args:
            q, v, tau: the last sample, as for :meth:`begin_interval`.

        Returns:
            The difference for each joint, (nv,) [N·m or N].
        """
        drive = self.balance.run(q[None], v[None], tau[None]).drive[0]
        return np.asarray(self.state["drive"] - drive)

    def begin_interval(
        self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, lag: np.ndarray | float = 0.0
    ) -> None:
        """Set the beginning of the next interval to a sample; the residual is unchanged.

        Arguments are not checked.

        Args:
            q, v: positions and velocities, (nq,) and (nv,) [rad or m, rad/s or m/s].
            tau: efforts of the kind that ``balance`` converts, (nv,).
            lag: delayed torque of the motors less the torque that is not delayed, from :meth:`lag`,
                (nv,) or a number for all joints [N·m or N].
        """
        self._begin(self.balance.run(q[None], v[None], tau[None]))
        self.state["drive"] += lag
        self.state["rate"] += lag

    def update(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, dt: float) -> np.ndarray:
        """Process one sample and return the residual.

        Args:
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s].
            tau: efforts of the kind that ``balance`` converts, by default torques [N·m or N],
                (nv,).
            dt: time since the previous sample [s]; ignored for the first one.

        Returns:
            r, (nv,) [N·m or N]: the torque the environment applies, filtered; zero for the first
            sample.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or ``dt`` not positive.
                The observer is then unchanged.
        """
        (q, v, tau), shape = state(self.model, q, v=v, tau=tau)
        if shape:
            raise InputError(f"update takes one sample, not {shape}; run takes many")
        if self._has_begun and not (math.isfinite(dt) and dt > 0.0):
            raise InputError(f"dt is {dt} s; it must be positive and finite")
        self._carry(np.array([dt]), q, v, tau)
        return self.residual

    def run(self, t: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Restart the observer, and process k samples.

        Args:
            t: times of the samples, (k,) [s], increasing.
            q: joint positions, (k, nq) [rad or m].
            v: joint velocities, (k, nv) [rad/s or m/s].
            tau: efforts of the kind that ``balance`` converts, by default torques [N·m or N],
                (k, nv).

        Returns:
            r, (k, nv) [N·m or N], identical to the results of ``update``.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or times that do not
                increase.
        """
        (q, v, tau), _ = state(self.model, q, v=v, tau=tau)
        dt = np.diff(np.asarray(t, dtype=float))
        if dt.shape != (q.shape[0] - 1,) or not (dt > 0.0).all():
            raise InputError(f"t must be {q.shape[0]} times that increase")
        self.reset()
        return np.concatenate([np.zeros((1, self.model.nv)), self._carry(dt, q, v, tau)])

    def filter(self, dt: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return a signal filtered by the observer's filter from rest; the observer is unchanged.

        Args:
            dt: lengths of the intervals, (k,) [s].
            x: mean of the signal over each interval, (k, nv).

        Returns:
            The filtered signal at the end of each interval, (k, nv).
        """
        x = np.ascontiguousarray(x, dtype=float)
        out = np.empty_like(x)
        state = np.zeros_like(self.state)
        filter_signal(self.kind, self.design, state, np.ascontiguousarray(dt, dtype=float), x, out)
        return out

    def step_response(self, dt: float, count: int) -> np.ndarray:
        """Return the response of ``r`` to a unit step of the external torque, (count, nv).

        The observer is unchanged. The gain of a Kalman filter has converged before the step.

        Args:
            dt: time between the samples [s]; the first is ``dt`` after the step.
            count: number of samples.
        """
        before = WARM_UP if self.kind == KALMAN else 0
        x = np.zeros((before + count, self.model.nv))
        x[before:] = 1.0
        return self.filter(np.full(len(x), dt), x)[before:]

    def rise(self, dt: float, count: int) -> tuple[float, np.ndarray]:
        """Return the step response including its start at zero, from a cache if possible.

        Args:
            dt: time between the samples [s].
            count: number of samples after the step.

        Returns:
            The time step [s], which is ``dt`` rounded to two significant digits, and the response
            (count + 1, nv).
        """
        step = float(f"{dt:.1e}")
        before, known = self._rise
        if step != before or len(known) <= count:
            known = np.vstack([np.zeros(self.model.nv), self.step_response(step, count)])
            self._rise = step, known
        return step, known[: count + 1]

    def risen(self, age: float) -> np.ndarray:
        """Return the step response of the residuals ``age`` [s] after a unit step, (nv,).

        The value is interpolated in the cached curve of :meth:`rise`. It is one beyond the end of
        this curve, and if :meth:`rise` has not been called.
        """
        step, known = self._rise
        cell = int(age / step) if step > 0.0 else 0
        if cell + 1 >= len(known):
            return np.ones(self.model.nv)
        share = age / step - cell
        return np.asarray(known[cell] + share * (known[cell + 1] - known[cell]))

    def _carry(self, dt: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Advance the observer by k samples; return the residuals after each interval, (k, nv).

        The first sample of all begins the first interval, so that the result has one row less.

        Args:
            dt: lengths of the intervals [s].
            q: positions, (k, nq) [rad or m].
            v: velocities, (k, nv) [rad/s or m/s].
            tau: efforts of the kind that ``balance`` converts, (k, nv).
        """
        balance, first = self.balance.run(q, v, tau), 0
        if not self._has_begun:
            self._begin(balance)
            first = 1
        p, rate, drive = (x[first:] for x in (balance.p, balance.rate, balance.drive))
        out = np.empty((p.shape[0], self.model.nv))
        filter_balance(self.kind, self.design, self.state, dt, p, rate, drive, out)
        return out

    def _begin(self, balance: Balance) -> None:
        """Begin the next interval with the first sample of ``balance``."""
        for name in ("p", "rate", "drive"):
            self.state[name] = getattr(balance, name)[0]
        self._has_begun = True


def positive(name: str, value: float | np.ndarray, model: Model) -> np.ndarray:
    """Return a parameter of an observer as an array (nv,) of positive numbers.

    Args:
        name: name of the parameter, for the error message.
        value: one number for all joints, or (nv,).
        model: the robot.

    Raises:
        InputError: for a value of the wrong shape, not finite or not positive.
    """
    values = np.asarray(value, dtype=float)
    if values.shape not in ((), (model.nv,)):
        raise InputError(f"{name} has shape {values.shape} but the model has nv = {model.nv}")
    if not np.all(np.isfinite(values) & (values > 0.0)):
        raise InputError(f"{name} must be positive and finite, not {value}")
    return np.broadcast_to(values, (model.nv,)).copy()
