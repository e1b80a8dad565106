"""Observers of the external torque: the momentum balance, and the filters after it.

**Delay of the measured velocity against the measured effort.**

Drivers differentiate and filter encoder positions, so the published velocity is late, while the
effort is not. When the motors' torque changes, the momentum follows too late, and the balance
counts the difference as an external torque. For a delay T, a step D of the torque and the observer
gain K, the residual has a peak of about ``K T D``: with K = 50 1/s, 2 ms and 150 N·m these are
15 N·m, more than a firm push.

The remedy is an equal delay of the effort. A velocity behind a first-order filter with the time
constant T is the velocity that the arm would have under the equally filtered torque, as long as the
mass matrix changes little during T. The filter is applied to the torque of the motors without
gravity, ``u``, because the other terms of the balance contain the delayed velocity already::

    u_k' = u_k + exp(-dt / T) (u_(k-1)' - u_k)

This is the exact solution for a torque that is constant between two samples. A contact that
moves the arm is detected no later, because its torque reaches the observer through the velocity,
which is late anyway. A contact of an arm at rest, against which the motors press with growing
torque, is detected later by T.

An effort that is late, behind a filter of the current for example, is the opposite: the same filter
is then applied to the rest of the balance, the torque that the motion shows without external
torque. A contact that moves the arm is detected later by T.

**The filters from momentum balance to residual, compiled, one joint at a time.**

Each filter takes ``x``, the mean external torque over an interval, and advances its residual ``r``
by the length ``dt`` of that interval. All filters solve their equation exactly for an ``x`` that is
constant over the interval. They are therefore stable for every ``dt``, and their gain at rest is
one.

First order::

    r_dot = K (x - r)

Second order, with damping ``zeta``. The noise of differentiated encoders grows with frequency, and
this filter attenuates it twice as steeply::

    r_ddot = K² (x - r) - 2 zeta K r_dot

Kalman. The external torque is a random walk, effort and momentum are measured with noise::

    p_dot = tau + tau_ext + torque noise        tau_ext_dot = drift
    measured: p + momentum noise

The state is the error ``e`` of the estimated momentum against the measured one, and the torque. The
gain follows from the covariance, which converges for any rate and jitter.

**The external torque from the momentum balance, before any filter.**

From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext`` follows, exactly, the mean external torque
of the time between two samples::

    x_k = (p_k - p_(k-1)) / dt - mean of (tau - tau_friction + Cᵀ v - g)

with the mean by the trapezoidal rule. Each sample gives its momentum ``p`` and its ``rate``, the
term in parentheses; samples are independent of each other, so blocks are processed at once.

The published effort is first converted to a torque: ``tau = effort_gain effort``, and if the
driver subtracts gravity, ``tau = effort_gain effort + g``.

**Base class of the momentum observers: momentum balance, state and blocks around a filter.**

An observer processes samples and returns the residual ``r``, the low-pass-filtered external torque.
It needs no acceleration and does not invert the mass matrix.

**The generalised-momentum residual: the external torque, through a first-order filter.**

De Luca & Mattone (2003); De Luca, Albu-Schaeffer, Haddadin & Hirzinger (2006); EW21 section 1 for
the role of the Coriolis matrix. From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext``::

    r = K_O ( p(t) - p(0) - integral of (tau - tau_friction + Cᵀ v - g + r) dt )
    so  r_dot = K_O (tau_ext - r)

**The momentum residual through a second-order filter.**

The residual obeys ``r_ddot = K² (tau_ext - r) - 2 zeta K r_dot``.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.batches import STATES_FOR_LANES, Kernels, over_states
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.memory import lane_scratch
from rbd_control.dynamics.momentum import momentum_of_states, momentum_sweep
from rbd_control.dynamics.sweep import new_lane_sweep, new_sweep, position_offset
from rbd_control.errors import InputError
from rbd_control.robot.friction import ROWS, Friction, NoFriction, joint_friction

LONGEST_DELAY = 0.05
"""Largest magnitude of the parameter ``velocity_delay`` [s]."""


@inlined
def delayed(before, drive, dt, delay):
    """Return the delayed torque of a joint at the end of an interval [N·m or N].

    Args:
        before: delayed torque at the beginning of the interval [N·m or N].
        drive: torque of the motor less gravity at the end of the interval [N·m or N].
        dt: length of the interval [s].
        delay: time constant T [s]; zero for no delay.
    """
    if delay <= 0.0:
        return drive
    return drive + math.exp(-dt / delay) * (before - drive)


@compiled
def delay_torques(dt, drive, delay, out):
    """Delay the torques of k samples by the time constant ``delay`` [s], the same for all joints.

    Args:
        dt: times between the samples, (k - 1,) [s].
        drive: torques of the motors less gravity, (k, nv) [N·m or N].
        delay: time constant T [s]; zero for no delay.
        out: delayed torques, (k, nv) [N·m or N], written; the first sample is not delayed.
    """
    out[0] = drive[0]
    for k in range(1, drive.shape[0]):
        for i in range(drive.shape[1]):
            out[k, i] = delayed(out[k - 1, i], drive[k, i], dt[k - 1], delay)


FIRST_ORDER, SECOND_ORDER, KALMAN = 0, 1, 2
"""Kinds of filter, as compiled code distinguishes them."""
DESIGN = np.dtype(
    [
        ("gain", "f8"),  # K [1/s]
        ("damping", "f8"),  # zeta of the second order
        ("torque_noise", "f8"),  # Kalman: standard deviation of one sample [N·m or N]
        ("momentum_noise", "f8"),  # Kalman: standard deviation of one sample [N·m·s or N·s]
        ("drift", "f8"),  # Kalman: random walk of the external torque [N·m/√s or N/√s]
        ("delay", "f8"),  # delay of velocity against effort, negative for a late effort [s]
    ],
    align=True,
)
"""Constants of the observer of one joint; each kind of filter uses some of the fields."""
STATE = np.dtype(
    [
        ("residual", "f8"),  # r, the estimate of the external torque [N·m or N]
        ("slope", "f8"),  # r_dot of the second order [N·m/s or N/s]
        ("error", "f8"),  # Kalman: e [N·m·s or N·s]
        ("error_variance", "f8"),  # Kalman: variance of e
        ("covariance", "f8"),  # Kalman: covariance of e and r
        ("variance", "f8"),  # Kalman: variance of r
        ("p", "f8"),  # momentum of the last sample [N·m·s or N·s]
        ("rate", "f8"),  # rate of p by the momentum balance, with the delayed torque [N·m or N]
        ("drive", "f8"),  # delayed torque of the motor less gravity [N·m or N]
        ("shown", "f8"),  # delayed torque that the motion shows, for a late effort [N·m or N]
    ],
    align=True,
)
"""State of the observer of one joint: its filter, and the sample that begins the next interval."""


@inlined
def advance(kind, design, state, dt, x):
    """Advance the filter of one joint by ``dt`` [s] under the mean input ``x`` [N·m or N].

    Args:
        kind: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: constants of the filter, an element of type ``DESIGN``.
        state: an element of type ``STATE``, changed in place.
        dt: length of the interval [s].
        x: mean external torque over the interval [N·m or N].

    Returns:
        Three numbers with which :func:`follow` advances other signals through the same filter.
    """
    if kind == FIRST_ORDER:
        decay = math.exp(-design.gain * dt)
        state.residual = decay * state.residual + (1.0 - decay) * x
        return decay, 0.0, 0.0
    if kind == SECOND_ORDER:
        K, zeta = design.gain, design.damping
        ringing = K * math.sqrt(1.0 - zeta * zeta)
        decay = math.exp(-zeta * K * dt)
        cosine = math.cos(ringing * dt)
        # The sine is divided by the angular frequency of the ringing.
        sine = math.sin(ringing * dt) / ringing if ringing * dt > 1e-6 else dt
        gains = decay, cosine, sine
        state.residual, state.slope = follow(
            kind, design, gains, state.residual, state.slope, dt, x
        )
        return gains
    return _kalman(design, state, dt, x)


@inlined
def follow(kind, design, gains, value, rate, dt, x):
    """Advance a filter of another signal by an interval of the observer of a joint.

    Args:
        kind, design: as of :func:`advance`.
        gains: result of :func:`advance` for this interval.
        value: filtered signal before the interval.
        rate: the other state of the filter: slope, or error of the integral (Kalman).
        dt: length of the interval [s].
        x: mean of the signal over the interval.

    Returns:
        The filtered signal and the other state at the end of the interval.
    """
    a, b, c = gains
    if kind == FIRST_ORDER:
        return a * value + (1.0 - a) * x, rate
    if kind == SECOND_ORDER:
        # e = value - x obeys e_ddot + 2 zeta K e_dot + K² e = 0.
        K, zeta = design.gain, design.damping
        e = value - x
        return (
            x + a * (b * e + c * (rate + zeta * K * e)),
            a * (b * rate - c * (K * K * e + zeta * K * rate)),
        )
    e = rate + (value - x) * dt
    return value - b * e, e - a * e


@inlined
def begin(state, p, rate, drive):
    """Store a sample as the beginning of the next interval of one joint.

    Args:
        state: an element of type ``STATE``, changed in place.
        p: momentum of the joint [N·m·s or N·s].
        rate: rate of ``p`` without external torque, ``tau - tau_friction + Cᵀ v - g`` [N·m or N].
        drive: torque of the motor less gravity, which ``rate`` contains [N·m or N].
    """
    state.p, state.rate, state.drive, state.shown = p, rate, drive, math.nan


@inlined
def observe(kind, design, state, dt, p, rate, drive, bias):
    """Advance the observer of one joint from the sample in ``state`` to the next sample.

    Args:
        kind: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: constants of the filter, an element of type ``DESIGN``.
        state: an element of type ``STATE``, changed in place.
        dt: time between the two samples [s].
        p: momentum of the joint at the next sample [N·m·s or N·s].
        rate: rate of ``p`` without external torque, ``tau - tau_friction + Cᵀ v - g`` [N·m or N].
        drive: torque of the motor less gravity, which ``rate`` contains [N·m or N].
        bias: external torque to be removed, its mean over the interval [N·m or N].

    Returns:
        The result of :func:`advance`.
    """
    late = delayed(state.drive, drive, dt, design.delay)
    rate += late - drive
    x = mean_external(p, rate, state.p, state.rate, dt) - bias
    if design.delay < 0.0:
        moved = 0.5 * (late + state.drive)
        shown = x + moved
        if math.isfinite(state.shown):
            shown = delayed(state.shown, shown, dt, -design.delay)
        state.shown = shown
        x = shown - moved
    gains = advance(kind, design, state, dt, x)
    state.p, state.rate, state.drive = p, rate, late
    return gains


@inlined
def clear(state):
    """Set the filter state of one joint to zero; ``p``, ``rate`` and ``drive`` are unchanged."""
    state.residual = state.slope = 0.0
    state.error = state.error_variance = state.covariance = state.variance = 0.0


@inlined
def _kalman(design, state, dt, x):
    q = design.drift * design.drift
    ee, er, rr = state.error_variance, state.covariance, state.variance
    e = state.error + (state.residual - x) * dt
    # The trapezoidal mean of two samples' noise, divided by dt.
    noise = 0.5 * design.torque_noise * design.torque_noise
    ee += dt * (2.0 * er + dt * (rr + q * dt / 3.0 + noise))
    er += dt * (rr + 0.5 * q * dt)
    rr += q * dt
    innovation = ee + design.momentum_noise * design.momentum_noise
    gain_e, gain_r = ee / innovation, er / innovation
    state.residual -= gain_r * e
    state.error = e - gain_e * e
    state.error_variance = ee - gain_e * ee
    state.covariance = er - gain_e * er
    state.variance = rr - gain_r * er
    return gain_e, gain_r, 0.0


@compiled
def filter_signal(kind, design, state, dt, x, out):
    """Filter the means ``x`` (k, nv) over k intervals ``dt`` (k,) [s], joint by joint.

    The filtered signal at the end of each interval, in the unit of ``x``, is written to ``out``
    (k, nv). ``design`` and ``state`` are (nv,) of ``DESIGN`` and ``STATE``; ``state`` is changed in
    place. ``kind`` is ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
    """
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            advance(kind, design[i], state[i], dt[k], x[k, i])
            out[k, i] = state[i].residual


@compiled
def filter_balance(kind, design, state, dt, p, rate, drive, out):
    """Run the observer of each joint over k samples, as :func:`observe` does for one.

    The residuals are written to ``out`` (k, nv) [N·m or N]. Each sample ends an interval of length
    ``dt`` (k,) [s]; ``state`` holds the beginning of the first interval. ``p``, ``rate`` and
    ``drive`` are (k, nv). ``design`` and ``state`` are (nv,) of ``DESIGN`` and ``STATE``; ``state``
    is changed in place.
    """
    for k in range(out.shape[0]):
        for i in range(p.shape[1]):
            observe(kind, design[i], state[i], dt[k], p[k, i], rate[k, i], drive[k, i], 0.0)
            out[k, i] = state[i].residual


GAIN = ROWS
"""Row of the effort gain in the settings, after the rows of friction."""
LARGEST = 1e9
"""Largest momentum or torque in range [N·m·s, N·s, N·m or N]."""

USABLE, OUT_OF_RANGE, NOT_FINITE = 0, 1, 2
"""Quality of a sample: usable; finite numbers with results beyond ``LARGEST``; NaN or infinite."""


class Balance(NamedTuple):
    """Terms of the momentum balance of k samples."""

    p: np.ndarray
    """Generalised momentum M v, (k, nv) [N·m·s or N·s]."""
    rate: np.ndarray
    """tau - tau_friction + Cᵀ v - g, (k, nv) [N·m or N]."""
    torque: np.ndarray
    """Torque of the joint, the driver's effort converted, (k, nv) [N·m or N]."""
    load: np.ndarray
    """Gravity torque in the driver's effort, (k, nv) [N·m or N]; zero if it is excluded."""
    drive: np.ndarray
    """Torque of the motors less gravity, tau - g, which ``rate`` contains, (k, nv) [N·m or N]."""
    quality: np.ndarray
    """(k,) int8: ``USABLE``, ``OUT_OF_RANGE`` or ``NOT_FINITE``."""


@inlined
def mean_external(p, rate, last_p, last_rate, dt):
    """Return the mean external torque of one joint between two samples, which are ``dt`` [s] apart.

    ``p`` is the momentum [N·m·s or N·s] and ``rate`` its rate without external torque [N·m or N].
    """
    return (p - last_p) / dt - 0.5 * (rate + last_rate)


@inlined
def _quality(q, v, effort, p, rate):
    """Return the quality of one sample."""
    numbers, in_range = 0.0, True
    for i in range(q.shape[0]):
        numbers += 0.0 * q[i]
    for i in range(v.shape[0]):
        numbers += 0.0 * v[i] + 0.0 * effort[i]
        in_range = in_range and abs(p[i]) <= LARGEST and abs(rate[i]) <= LARGEST
    if not math.isfinite(numbers):
        return NOT_FINITE
    return USABLE if in_range else OUT_OF_RANGE


@inlined
def _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive):
    """Complete sample ``k``, in which ``rate`` holds Cᵀ v and ``load`` holds g."""
    for i in range(v.shape[1]):
        g = load[k, i]
        measured = settings[GAIN, i] * effort[k, i]
        torque[k, i] = measured + (1.0 - gravity_share) * g
        load[k, i] = gravity_share * g
        drive[k, i] = measured - gravity_share * g
        friction = joint_friction(kind, settings, i, v[k, i])
        rate[k, i] = measured - friction + rate[k, i] - gravity_share * g


@compiled
def _balance(
    packed, kind, gravity_share, settings, q, v, effort, p, rate, torque, load, drive, quality
):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for k in range(q.shape[0]):
        momentum_sweep(model, q[k], v[k], s, p[k], rate[k], load[k])
        _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive)
        quality[k] = _quality(q[k], v[k], effort[k], p[k], rate[k])


@compiled
def _balance_in_lanes(
    packed, kind, gravity_share, settings, q, v, effort, p, rate, torque, load, drive, quality
):
    """Compute the result of :func:`_balance` with the momentum of several samples at a time."""
    model = unpacked(packed)
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(5 * model.nv + position_offset(model))
    momentum_of_states(model, q, v, q.shape[0], s, room, p, rate, load)
    for k in range(q.shape[0]):
        _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive)
        quality[k] = _quality(q[k], v[k], effort[k], p[k], rate[k])


_BALANCE = Kernels(_balance, _balance_in_lanes, compiled_from=STATES_FOR_LANES)
"""Kernels for one sample and for blocks; nodes process single samples and use the first only."""


class MomentumBalance:
    """Computes the terms of the momentum balance of one arm from samples.

    Args:
        model: the robot.
        friction: tau_friction(v); none by default.
        effort_gain: torque per unit of effort, a number or (nv,) [N·m or N per unit].
        with_gravity: whether the effort includes the gravity torque of the arm.

    Attributes:
        model: the robot.
        single: result of the last call of :meth:`run` with one sample.
    """

    def __init__(
        self,
        model: Model,
        friction: Friction | None = None,
        *,
        effort_gain: float | np.ndarray = 1.0,
        with_gravity: bool = True,
    ) -> None:
        friction = friction or NoFriction()
        self.model = model
        self._settings = np.zeros((ROWS + 1, model.nv))
        self._settings[:ROWS] = friction.coefficients(model.nv)
        self._settings[GAIN] = effort_gain
        gravity_share = 1.0 if with_gravity else 0.0
        self._shared = (model.packed, friction.kind, gravity_share, self._settings)
        self.single = self._room(1)

    def run(self, q: np.ndarray, v: np.ndarray, effort: np.ndarray) -> Balance:
        """Return the momentum balance of k samples.

        Arguments are not checked: they must be C-contiguous. The result of a single sample is
        overwritten by the next call. Numbers that are not finite are reported in ``quality``.

        Args:
            q, v: positions and velocities, (k, nq) and (k, nv) [rad or m, rad/s or m/s].
            effort: efforts as published, (k, nv).
        """
        count = v.shape[0]
        if count == 1:
            _balance(*self._shared, q, v, effort, *self.single)
            return self.single
        balance = self._room(count)
        over_states(_BALANCE.of(count), self._shared, count, [q, v, effort, *balance])
        return balance

    def _room(self, count: int) -> Balance:
        p, rate, torque, load, drive = (np.empty((count, self.model.nv)) for _ in range(5))
        return Balance(p, rate, torque, load, drive, np.empty(count, dtype=np.int8))


WARM_UP = 4000
"""Number of samples after which the gain of a Kalman filter has converged."""


class Observer:
    """A momentum observer; derived classes select the filter.

    Over one interval the momentum balance gives the mean external torque exactly, and the filter
    is solved exactly for that constant input: observers are stable at any rate
    and over any jitter, unbiased, and each step uses its own measured ``dt``.

    The contact detector runs the same steps with additional checks in one compiled loop; it uses
    ``kind``, ``design``, ``state`` and ``balance`` of this class.

    Args:
        model: the robot.
        friction: tau_friction(v); None for none.
        **design: constants of the filter by the fields of :data:`DESIGN`, (nv,) each.

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
        for name in set(STATE.names or ()) - {"residual", "p", "rate", "drive", "shown"}:
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

    def rise_time(self, dt: float, share: float, most: int) -> float:
        """Return the time after a step in which all residuals reach a share of it [s].

        Args:
            dt: time between the samples [s].
            share: share of the step, below 1.
            most: maximum number of samples after the step; the result is not longer.
        """
        count = min(256, most)
        while True:
            step, known = self.rise(dt, count)
            reached = np.flatnonzero((known >= share).all(axis=1))
            if reached.size or count == most:
                return step * float(reached[0] if reached.size else most)
            count = min(4 * count, most)

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
        self.state["shown"] = math.nan
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


class MomentumObserver(Observer):
    """First-order momentum observer; call :meth:`update` with every sample.

    With the mean external torque ``x_k`` of an interval its filter is::

        r_k = exp(-K_O dt) r_(k-1) + (1 - exp(-K_O dt)) x_k

    The pole lies in (0, 1) for every ``dt``; explicit Euler would oscillate for ``K_O dt > 1``, at
    30 Hz from 30 1/s, and diverge for ``K_O dt > 2``.

    Args:
        model: the robot.
        gain: K_O [1/s], a number or (nv,), positive; 1 / K_O is the time constant.
        friction: tau_friction(v); none by default.

    Raises:
        InputError: for a gain of the wrong shape or not positive.
    """

    kind = FIRST_ORDER

    def __init__(
        self, model: Model, gain: float | np.ndarray, friction: Friction | None = None
    ) -> None:
        self.gain = positive("gain", gain, model)
        super().__init__(model, friction, gain=self.gain)


class SecondOrderObserver(Observer):
    """Second-order momentum observer.

    Args:
        model: the robot.
        gain: K [1/s], a number or (nv,), positive: its natural frequency.
        friction: tau_friction(v); none by default.
        damping: zeta in (0, 1]; 1 is critical, and less overshoots.

    Raises:
        InputError: for a gain of the wrong shape or not positive, or a damping out of bounds.
    """

    kind = SECOND_ORDER

    def __init__(
        self,
        model: Model,
        gain: float | np.ndarray,
        friction: Friction | None = None,
        damping: float = 1.0,
    ) -> None:
        if not 0.0 < damping <= 1.0:
            raise InputError(f"damping is {damping}; it must lie above 0 and at most at 1")
        self.gain = positive("gain", gain, model)
        super().__init__(model, friction, gain=self.gain, damping=np.full(model.nv, damping))


class KalmanObserver(Observer):
    """Momentum-based disturbance observer, a Kalman filter of momentum and external torque.

    Source of the idea: Hu & Xiong, *Contact Force Estimation for Robot Manipulator Using
    Semiparametric Model and Disturbance Kalman Filter*, IEEE Trans. Ind. Electron. 65(4), 2018.
    Joints are filtered one by one here, as their momenta are measured one by one.

    Args:
        model: the robot.
        torque_noise: standard deviation of one sample of the torque, a number or (nv,) [N·m or N].
        momentum_noise: standard deviation of one sample of the momentum: standard deviation of
            the velocity times the inertia of the joint, a number or (nv,) [N·m·s or N·s].
        drift: random walk of the external torque, a number or (nv,) [N·m/√s or N/√s].
        friction: tau_friction(v); none by default.

    Raises:
        InputError: for a noise of the wrong shape or not positive.
    """

    kind = KALMAN

    def __init__(
        self,
        model: Model,
        torque_noise: float | np.ndarray,
        momentum_noise: float | np.ndarray,
        drift: float | np.ndarray,
        friction: Friction | None = None,
    ) -> None:
        super().__init__(
            model,
            friction,
            torque_noise=positive("torque_noise", torque_noise, model),
            momentum_noise=positive("momentum_noise", momentum_noise, model),
            drift=positive("drift", drift, model),
        )
