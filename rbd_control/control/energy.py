"""Online computation of the storage function and powers in the passivity proof.

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
``v_rᵀ tau_spring >= 0`` is dissipated, see :mod:`~rbd_control.control.soft_limits`.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isnan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.energy_step import LastSample, balance_step
from rbd_control.control.gains import law_gains
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_step import no_bounds
from rbd_control.dynamics import Model
from rbd_control.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EnergyBalance:
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
        before = float(self._last.storage[0])
        period = dt if self._started else 0.0
        storage, dissipated, injected, bound = balance_step(
            self.model.packed,
            self._gains,
            self._bounds,
            self._last,
            q,
            v,
            q_d,
            v_r_used,
            law,
            acting,
            period,
        )
        if isnan(storage):
            raise InputError(f"an argument is not finite: q = {q}, v = {v}, law = {law}")
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
