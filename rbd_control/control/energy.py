"""Energies of the controller: passivity monitor, energy tank, and their account.

**Online computation of the storage function and powers in the passivity proof.**

With ``e = q - q_d``, ``s = v - v_r``, ``K_D = D + damping_rate M`` (D = diag(damping)) and
``K = 2 Lambda D``, the law of :mod:`~rbd_control.control.slotine_li` has the storage::

    V = ½ sᵀ M s + ½ eᵀ K e
    V_dot = sᵀ (tau_ext + d) + sᵀ (tau - tau_law)
            - (e_dotᵀ D e_dot + eᵀ Lambda D Lambda e + damping_rate sᵀ M s)

for ``s = e_dot + Lambda e``, and so ``sᵀ D s = e_dotᵀ D e_dot + eᵀ Lambda D Lambda e + d/dt ½ eᵀ K
e``. Here d is the error of model and friction, tau the acting torque and tau_law the torque of the
law at this instant. The second power is injected by the *control loop*: computation takes time, a
command is held for a period, and commands are limited. Its computation needs neither accelerations
nor the true contacts and masses.

Bounded references. Where speed or position limits bound v_r, s is not ``e_dot + Lambda e``, and
``½ eᵀ K e`` would grow by more than the work that pushes the arm away. The elastic energy of a
joint is therefore bounded by the work of its damping::

    E_i = min(½ K_i e_i², E_i before + work of D_i s_i²)
    dissipated_i = work of D_i s_i² - change of E_i >= 0

For any E_i >= 0 that rises by no more than the work of ``D_i s_i²``, V is a storage function: its
energy was taken from the motion along s. While references are not bounded, E_i is ``½ K_i e_i²``,
as the identity above shows. Beyond soft limits V also contains the energy of their springs, and
``v_rᵀ tau_spring >= 0`` is dissipated, see :mod:`~rbd_control.control.limits`.

Sampled control. During a period the command of its beginning acts, while the torque of the law
changes to its value at the end. With linear interpolation, whose error is O(dt²), the loop injects
at most::

    bound = ½ dt sum of max(|s|) |tau_law(end) - tau_law(begin)|

With an exact model, no delay and no contact, ``V(end) - V(begin) <= bound - dissipated`` to
O(dt³): the quadratures are trapezoids. A delay of k periods injects up to 2k + 1 times as much.

Limits of the online check. V, dissipation and injection are computed with the masses of the model.
Their balance gives ``supplied``, the energy of contacts and model errors together; measurements
cannot separate the two. The described masses are also used with an adaptive law, whose K_D contains
them; V lacks its term
``½ |W_hat - W|² / learning_rate``, because W is unknown; its energy appears in ``supplied``.

The loop counts as passive while, on average, it injects less than K_D dissipates: the stored energy
then rises only by supplied energy. See ``passivity_margin`` and ``passivity_tolerance``; the
latter excludes sensor noise and the lag of a changing feed-forward torque.

**A bound on the energy that a controller may inject into the arm and its surroundings.**

A law that tracks a trajectory is passive with respect to ``s = v - v_r``, not to v: an obstacle in
the path is pushed with the full power of the motors. The tank bounds the energy with respect to v.
Its level falls by the work of the controller on the arm, and rises by the work taken from the arm,
up to a capacity::

    level_dot = refill - vᵀ (tau - g) + vᵀ F(v)        level <= capacity

(tau: torque of the motors; g: gravity torque; F: the known friction, whose losses occur inside the
joints and do not count as injection, or zero if the drives supply these losses
(``friction_compensated``); capacity, refill and valve: parameters ``tank_capacity``,
``tank_refill`` and ``tank_valve``.) The torque has a dissipative part, ``g - K_D v``, and an active
part ``w = tau - g + K_D v``, which contains ``K_D v_r`` and the feed-forward. While the level is
below ``valve`` x capacity, w fades::

    tau' = g - K_D v + min(1, level / (valve capacity)) w

and further if the power expected at the measured v would empty the tank within the period. Over any
time t the controller therefore injects at most ``capacity + refill t``, for any trajectory: after a
collision the arm releases at most its kinetic energy, the content of the tank, and the refill.
Work is computed exactly, as held torque times distance. If v changes within the period, the work
may exceed the level by O(dt²). If the next sample is late or cannot be used, the torque stands for
up to ``timeout`` and may exceed the level by its power times that time. The level is then negative
until it is refilled.

The limits of torque and rate act after the tank, and the rate limit may prolong a torque that the
tank has withdrawn. Therefore :meth:`EnergyTank.sent` is the last step: if the torque would inject
more energy than the level, the driving torque of each joint, ``v_i (tau_i - g_i) > 0``, is reduced
at once, without regard to ``torque_rate``. The safe torque withdraws driving torque in the same
way.

Lifting a weight that the model does not contain also takes energy from the tank; for a loaded arm,
use a model with the payload.

Sources: Duindam & Stramigioli, *Port-based asymptotic curve tracking for mechanical systems*,
European Journal of Control 2004; Ferraguti, Secchi & Fantuzzi, *A tank-based approach to impedance
control with variable stiffness*, ICRA 2013. The account along v is our choice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isfinite, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters, EnergyParameters
from rbd_control.control.gains import law_gains
from rbd_control.control.kernels import law_step, no_bounds
from rbd_control.control.limits import SoftLimits
from rbd_control.control.modes import Modes
from rbd_control.control.motion import DesiredMotion
from rbd_control.control.samples import SampleJudge
from rbd_control.control.torque_path import TorquePath
from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled, for_types_of
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.spatial import copy
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import InputError
from rbd_control.robot.friction import NoFriction

Array = NDArray[np.float64]


class LastSample(NamedTuple):
    """Data of the energy monitor at the last sample; :func:`balance_step` changes them in place.

    Attributes:
        s: (n,) velocity error v - v_r [rad/s or m/s].
        law: (n,) torque of the control law [N·m or N].
        elastic: (n,) elastic energy E_i that the damping of each joint stores [J].
        damped: (n,) power ``D_i s_i²`` of the damping of each joint [W].
        storage: (1,) storage function V [J].
        power: (1,) power that is dissipated in addition to ``damped``: by ``damping_rate M`` and
            at the springs of the soft limits [W].
    """

    s: np.ndarray
    law: np.ndarray
    elastic: np.ndarray
    damped: np.ndarray
    storage: np.ndarray
    power: np.ndarray


@compiled
def balance_step(packed, gains, bounds, last, q, v, q_d, v_r, law, acting, dt):
    """Return ``(V, dissipated, injected, bound)`` [J] of the period that ends with this sample.

    :class:`EnergyBalance` describes the results. If an argument is not
    finite, they are NaN and nothing is stored. With dt = 0, which begins a new balance, all but V
    are zero.

    Args:
        packed: the model as one array.
        gains: gains of the control law, ``LawGains``.
        bounds: soft position limits with their springs, ``ReferenceBounds``.
        last: data of the last sample, replaced by the data of this sample.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        q_d: (n,) desired positions [rad or m].
        v_r: (n,) reference velocity [rad/s or m/s].
        law: (n,) torque of the control law for this sample, before limits [N·m or N].
        acting: (n,) torque of the motors since the last sample [N·m or N].
        dt: time since the last sample [s].
    """
    model, n = unpacked(packed), q.shape[0]
    s, elastic, damped = np.empty(n), np.empty(n), np.empty(n)
    stored, power, dissipated = 0.0, 0.0, 0.0
    for i in range(n):
        e = q[i] - q_d[i]
        s[i] = v[i] - v_r[i]
        damped[i] = gains.damping[i] * s[i] * s[i]
        elastic[i] = gains.Lambda[i] * gains.damping[i] * e * e
        if dt > 0.0:
            # The stored energy rises by no more than the work of the damping.
            work = 0.5 * dt * (damped[i] + last.damped[i])
            elastic[i] = min(elastic[i], last.elastic[i] + work)
            dissipated += work - (elastic[i] - last.elastic[i])
        stored += elastic[i]
        depth = max(bounds.lower[i] - q[i], 0.0) - max(q[i] - bounds.upper[i], 0.0)
        if depth != 0.0:
            spring = bounds.stiffness[i] * depth
            stored += 0.5 * spring * depth
            power += v_r[i] * spring
    p, unused, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, s, new_sweep(model.parent.shape[0]), p, unused, g)
    injected, bound, weighted = 0.0, 0.0, 0.0
    for i in range(n):
        weighted += s[i] * p[i]
        change = law[i] - last.law[i]
        injected += last.s[i] * (acting[i] - last.law[i]) + s[i] * (acting[i] - law[i])
        bound += max(abs(last.s[i]), abs(s[i])) * abs(change)
    storage = 0.5 * weighted + stored
    power += gains.damping_rate * weighted
    dissipated += 0.5 * dt * (power + last.power[0])
    injected *= 0.5 * dt
    bound *= 0.5 * dt
    if np.isfinite(storage + power + dissipated + injected + bound):
        copy(s, last.s)
        copy(law, last.law)
        copy(elastic, last.elastic)
        copy(damped, last.damped)
        last.storage[0] = storage
        last.power[0] = power
        return storage, dissipated, injected, bound
    return np.nan, np.nan, np.nan, np.nan


FixedLaw = tuple[Array, Any, Any, int, Any]
"""The fixed law, see :attr:`SlotineLiController.constants`."""


@compiled
def law_balance_step(law, bias, last, sample, acting, dt):
    """Return the results of :func:`balance_step` for a sample under the fixed law.

    Args:
        law: the law, as :attr:`SlotineLiController.constants`.
        bias: (n,) torque that is added to that of the law [N·m or N].
        last, acting, dt: as of :func:`balance_step`.
        sample: measured q, v and desired q, v, a, (n,) each.
    """
    packed, gains, bounds, kind, friction = law
    q, v, q_d, v_d, a_d = sample
    v_r, _, torque = law_step(packed, gains, bounds, kind, friction, q, v, q, v, q_d, v_d, a_d)
    for i in range(q.shape[0]):
        torque[i] += bias[i]
    return balance_step(packed, gains, bounds, last, q, v, q_d, v_r, torque, acting, dt)


@compiled
def tank_step(packed, damping, damping_rate, q, v, tau, share, most, limited):
    """Write ``g - K_D v + share w`` with ``w = tau - g + K_D v``; return the share that was used.

    The share is reduced if the injected power ``vᵀ (tau' - g)`` of the result tau' would exceed
    ``most``.

    Args:
        packed: the model as one array.
        damping, damping_rate: K_D is ``diag(damping) + damping_rate M``.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        tau: (n,) requested torque [N·m or N]; replaced by the result less g.
        share: share of w that the level of the tank permits, 0 to 1.
        most: largest injected power [W].
        limited: (n,) resulting torque [N·m or N], written.
    """
    model, n = unpacked(packed), q.shape[0]
    p, unused, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, v, new_sweep(model.parent.shape[0]), p, unused, g)
    taken, active = 0.0, 0.0
    for i in range(n):
        drag = damping[i] * v[i] + damping_rate * p[i]
        limited[i] = g[i] - drag
        taken += v[i] * drag
        active += v[i] * (tau[i] - limited[i])
    if share * active > most + taken:
        share = (most + taken) / active
    for i in range(n):
        limited[i] += share * (tau[i] - limited[i])
        tau[i] = limited[i] - g[i]
    return share


if TYPE_CHECKING:
    from rbd_control.control.configuration import Setup


class EnergyBalance(NamedTuple):
    """Energies of the period that ends with a sample [J].

    For the first sample after a start or reset of the monitor all are zero, except ``storage``.
    """

    storage: float
    """Value of the storage function V at the end of the period, see the module."""
    rise: float
    """V at the end minus V at the beginning: supplied - dissipated + injected."""
    dissipated: float
    """Energy dissipated by K_D, and by the law at the springs of the soft limits."""
    injected: float
    """Energy injected by the loop through delay, hold and limits; negative if they dissipate."""
    supplied: float
    """Energy supplied by contacts and model errors."""
    bound: float
    """Bound on the energy injected by holding the command for this period."""
    passive: bool
    """Whether the control loop is passive on average.

    The average injected power is at most ``1 - passivity_margin`` times the average power that K_D
    dissipates, plus ``passivity_tolerance``. Averages are exponential, with the time constant
    ``passivity_window``.
    """


class EnergyMonitor:
    """Computes storage function and powers of one arm under the control law, sample by sample.

    Args:
        model: an arm with a fixed base.
        parameters: parameters of the control law; the monitor uses the gains.
        energy: thresholds of the passivity check.
        soft: soft position limits, whose springs store energy; none by default.

    Attributes:
        model: the arm; it may be replaced between samples, for example by one with new estimates.

    Raises:
        InputError: for a floating base.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self,
        model: Model,
        parameters: ControllerParameters,
        energy: EnergyParameters,
        soft: SoftLimits | None = None,
    ) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        self.model = model
        self._energy = energy
        n = model.nv
        self._gains = law_gains(parameters, model)
        self._bounds = no_bounds(n) if soft is None else soft.bounds()
        self._last = LastSample(*(np.zeros(n) for _ in range(4)), *(np.zeros(1) for _ in range(2)))
        self._of_law: Callable[..., tuple[float, float, float, float]] | None = None
        self._balance = for_types_of(
            balance_step,
            (model.packed, self._gains, self._bounds, self._last, *np.zeros((6, n)), 0.0),
        )
        self.reset()

    def reset(self) -> None:
        """Restart the monitor and its averages; the next sample begins the first period."""
        self._started = False
        self._injected, self._dissipated = 0.0, 0.0

    def update(
        self,
        q: Array,
        v: Array,
        q_d: Array,
        v_d: Array,
        law: Array,
        acting: Array,
        dt: float,
        v_r: Array | None = None,
    ) -> EnergyBalance:
        """Process one sample and return the balance of the period before it.

        Call :meth:`reset` first if the law did not control the arm at the last sample, or if the
        desired motion has jumped since.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d: desired positions and velocities, with the same shapes and units; the values
                of ``v_d`` are used only without ``v_r``.
            law: torque of the control law for this sample, before any limit, (nv,) [N·m or N].
            acting: torque of the motors since the last sample, (nv,) [N·m or N]: measured, or the
                last command, which excludes transport delay from the balance.
            dt: time since the last sample [s]; ignored for the first one.
            v_r: reference velocity of the law, (nv,) [rad/s or m/s]; without it
                ``v_d - bandwidth (q - q_d)``, not bounded.

        Raises:
            InputError: for arguments of the wrong shape or not finite, and after the first sample
                for ``dt`` that is not positive and finite; the monitor is then unchanged.
        """
        n = self.model.nv
        names = ("q", "v", "q_d", "v_d", "law", "acting", "v_r")
        given = (q, v, q_d, v_d, law, acting, v_d if v_r is None else v_r)
        arrays = []
        for name, x in zip(names, given, strict=True):
            x = np.ascontiguousarray(x, dtype=np.float64)
            if x.shape != (n,):
                raise InputError(f"{name} has shape {x.shape} but the model has nv = {n}")
            arrays.append(x)
        q, v, q_d, v_d, law, acting, v_r_used = arrays
        if v_r is None:
            v_r_used = v_d - self._gains.Lambda * (q - q_d)
        if self._started and not 0.0 < dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be positive and finite")
        return self.step(q, v, q_d, v_r_used, law, acting, dt)

    def step(
        self, q: Array, v: Array, q_d: Array, v_r: Array, law: Array, acting: Array, dt: float
    ) -> EnergyBalance:
        """Process one sample as :meth:`update` does; arguments are not checked.

        They must be contiguous arrays of float64, (nv,) each.

        Raises:
            InputError: for arguments that are not finite; the monitor is then unchanged.
        """
        before, period = float(self._last.storage[0]), dt if self._started else 0.0
        constants = self.model.packed, self._gains, self._bounds, self._last
        result = self._balance(*constants, q, v, q_d, v_r, law, acting, period)
        return self._balanced(before, period, *result)

    def step_of_law(
        self, law: FixedLaw, bias: Array, sample: tuple[Array, ...], acting: Array, dt: float
    ) -> EnergyBalance:
        """Process one sample under the fixed law as :meth:`step` does, in one compiled call.

        Args:
            law: the law, as :attr:`SlotineLiController.constants`.
            bias: torque that is added to that of the law, (nv,) [N·m or N].
            sample: q, v, q_d, v_d and a_d, as of :meth:`SlotineLiController.step`.
            acting, dt: as of :meth:`step`.

        Raises:
            InputError: as :meth:`step`.
        """
        before, period = float(self._last.storage[0]), dt if self._started else 0.0
        if self._of_law is None:
            given = law, bias, self._last, sample, acting, 0.0
            self._of_law = for_types_of(law_balance_step, given)
        result = self._of_law(law, bias, self._last, sample, acting, period)
        return self._balanced(before, period, *result)

    def _balanced(
        self,
        before: float,
        period: float,
        storage: float,
        dissipated: float,
        injected: float,
        bound: float,
    ) -> EnergyBalance:
        """Return the result of a period for the results of :func:`balance_step`."""
        if isnan(storage):
            raise InputError("an argument of the energy balance is not finite")
        rise = storage - before if self._started else 0.0
        self._started = True
        decay = exp(-period / self._energy.passivity_window)
        self._injected = decay * self._injected + injected
        self._dissipated = decay * self._dissipated + dissipated
        return EnergyBalance(
            storage,
            rise,
            dissipated,
            injected,
            rise + dissipated - injected,
            bound,
            self._passive(),
        )

    def _passive(self) -> bool:
        energy = self._energy
        # The sums are averages times the time constant.
        tolerated = energy.passivity_tolerance * energy.passivity_window
        kept = (1.0 - energy.passivity_margin) * self._dissipated
        return self._injected <= kept + tolerated


class EnergyTank:
    """The energy tank of one arm, initially full.

    Args:
        model: the arm; its gravity torque does not count as injection.
        parameters: parameters of the law; the tank uses K_D and friction.
        energy: capacity, refill and valve; with capacity zero, torques pass unchanged.

    Attributes:
        model: the arm; it may be replaced between samples, for example by one with new estimates.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, energy: EnergyParameters
    ) -> None:
        self.model = model
        self._energy = energy
        _, self._damping, self._damping_rate = law_gains(parameters, model)
        self._friction = parameters.friction(model.nv)
        self.reset()

    def reset(self) -> None:
        """Fill the tank; the work of the present period is not counted."""
        self._level = self._energy.tank_capacity
        self._pushing = np.zeros(self.model.nv)
        self._losing = np.zeros(self.model.nv)
        self._weight, self._v, self._dt = self._pushing, self._pushing, np.inf
        self.skip()

    def skip(self) -> None:
        """Do not count the work of the present period, because another torque acts in it."""
        self._q: Array | None = None

    def take_over(self, before: EnergyTank) -> None:
        """Copy the level and the present period of a tank for the same arm.

        If the previous tank was disabled, this tank is full. A smaller tank is at most full; a
        larger tank keeps the previous level.
        """
        if before._energy.tank_capacity == 0.0:
            return
        self._level = min(before._level, self._energy.tank_capacity)
        self._q, self._pushing, self._losing = before._q, before._pushing, before._losing
        self._weight, self._v, self._dt = before._weight, before._v, before._dt

    @property
    def level(self) -> float:
        """Energy left in the tank [J]; negative after more work than it contained."""
        return self._level

    @property
    def share(self) -> float:
        """Share of the active torque w (see the module) that the level permits, 0 to 1.

        It is 1 with capacity zero.
        """
        capacity = self._energy.tank_capacity
        if capacity == 0.0:
            return 1.0
        return min(max(self._level / (self._energy.tank_valve * capacity), 0.0), 1.0)

    def limit(self, q: Array, v: Array, tau: Array, dt: float, damping_share: float = 1.0) -> Array:
        """Account for the work of the last period, then limit a torque as the level requires.

        Send the returned torque to the motors. If other limits change it before, send the torque
        that :meth:`sent` returns.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            tau: requested torque, (nv,) [N·m or N], already limited: even a small share of an
                unlimited torque may be too large.
            dt: the period [s]: time since the last call, and until the next.
            damping_share: share of K_D that ``tau`` contains, 0 to 1. The dissipative part uses the
                same share, so that an empty tank does not damp an arm that floats.

        Returns:
            (nv,) [N·m or N]; ``tau`` itself if it need not be limited, and with capacity zero.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or ``dt`` that is not
                positive and finite; the level is then unchanged. Capacity zero skips these checks.
        """
        if self._energy.tank_capacity == 0.0:
            return tau
        n = self.model.nv
        arrays = []
        for name, x in (("q", q), ("v", v), ("tau", tau)):
            x = np.array(x, dtype=np.float64)
            if x.shape != (n,):
                raise InputError(f"{name} has shape {x.shape} but the model has nv = {n}")
            if not isfinite(x.dot(x)):
                raise InputError(f"{name} is {x.tolist()}; give finite numbers")
            arrays.append(x)
        q, v, pushing = arrays
        if not 0.0 < dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be positive and finite")
        if self._q is not None:
            work = float((self._pushing - self._losing).dot(q - self._q))
            self._level = min(
                self._level - work + self._energy.tank_refill * dt, self._energy.tank_capacity
            )
        limited = np.empty(n)
        share = tank_step(
            self.model.packed,
            damping_share * self._damping,
            damping_share * self._damping_rate,
            q,
            v,
            pushing,
            self.share,
            max(self._level, 0.0) / dt,
            limited,
        )
        self._q, self._pushing = q, pushing
        self._weight, self._v, self._dt = limited - pushing, v, dt
        if not isinstance(self._friction, NoFriction):
            self._losing = self._friction.torque(v)
        elif self._losing.any():  # taken over from a tank with friction
            self._losing = np.zeros(n)
        return limited if share < 1.0 else tau

    def acts(self, tau: Array) -> None:
        """Account for a torque that acts until the next call of :meth:`limit`.

        Args:
            tau: acting torque of the motors, (nv,) [N·m or N], in place of the result of
                :meth:`limit` or :meth:`sent`.
        """
        self._pushing = tau - self._weight

    def sent(self, limited: Array, tau: Array, bounds: tuple[Array, Array] | None = None) -> Array:
        """Return the torque to send in place of ``limited``, and count the work of this torque.

        The driving torque is ``tau_i - g_i`` of the joints with ``v_i (tau_i - g_i) > 0``. If
        ``tau`` would inject more than the level within one period, the driving torque is reduced by
        one factor in all joints.

        Args:
            limited: result of :meth:`limit` for this sample, (nv,) [N·m or N].
            tau: ``limited`` after other limits, for example of the rate, (nv,) [N·m or N].
            bounds: least and largest torque of the motors, (nv,) each [N·m or N], which hold after
                the reduction. A motor that is too weak to hold the weight may therefore inject more
                than the level.

        Returns:
            (nv,) [N·m or N]; ``tau`` itself unless it would inject more than the level.
        """
        if tau is limited or self._energy.tank_capacity == 0.0:
            return tau
        pushing = tau - self._weight
        power = self._v * pushing
        drives = power > 0.0
        driving, taken = float(power[drives].sum()), -float(power[~drives].sum())
        most = max(self._level, 0.0) / self._dt + taken
        if driving > most:
            pushing = np.where(drives, most / driving * pushing, pushing)
            tau = self._weight + pushing
            if bounds is not None:
                tau = np.minimum(np.maximum(tau, bounds[0]), bounds[1])
        self._pushing = tau - self._weight
        return tau


class EnergyAccount:
    """Computes the energy balance of each period, and restarts it where it cannot continue.

    It restarts after a jump of the desired motion, and after a sample for which :meth:`balance`
    returned None.

    Args:
        setup, samples, motion, modes, path: parts of the controller, which are only read.
    """

    def __init__(
        self,
        setup: Setup,
        samples: SampleJudge,
        motion: DesiredMotion,
        modes: Modes,
        path: TorquePath,
    ) -> None:
        self._setup = setup
        self._samples, self._motion, self._modes, self._path = samples, motion, modes, path
        self._jumps = -1
        """Count of jumps of the motion at the last sample in the balance; -1 for a restart."""

    def balance(self, effort: Array | None = None) -> EnergyBalance | None:
        """Return the energies of the period before the last sample; call it once for each sample.

        Args:
            effort: measured torque of the motors, (nv,) [N·m or N]; without it, and for an arm that
                compensates its gravity or friction, the sent torque is used.

        Returns:
            The energies. None if the last command did not track a desired motion under the control
            law with the present parameters, if the last sample is the first, is the first after a
            loss of joint states or repeats a stamp, or if ``effort`` is used and has the wrong
            shape or is not finite.
        """
        samples, law, p = self._samples, self._setup.now.law, self._setup.now.parameters
        if not self._path.is_tracking or samples.dt <= 0.0:
            self._jumps = -1
            return None
        if self._jumps != self._motion.jumps:
            self._jumps = self._motion.jumps
            law.jump()
        # Arms that compensate gravity measure torque with their weight (Franka) or without (UR).
        # The measured torque of an arm that compensates friction may contain this compensation.
        if effort is None or p.gravity_compensated or p.friction_compensated:
            effort = self._path.acted
        acting = np.ascontiguousarray(effort, dtype=np.float64)
        if acting.shape != samples.q.shape:
            self._jumps = -1
            return None
        try:
            return law.balance(
                samples.stamp, samples.q, samples.v, self._modes.desired, acting, samples.dt
            )
        except InputError:  # The effort is not finite.
            self._jumps = -1
            return None
