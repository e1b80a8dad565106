"""The energy that the proof of passivity is about, measured while the arm runs.

With ``e = q - q_d``, ``s = v - v_r``, ``K_D = D + damping_rate M`` (D = diag(damping)) and
``K = 2 Lambda D``, the law of :mod:`~rbd_control.control.slotine_li` has the storage::

    V = ½ sᵀ M s + ½ eᵀ K e
    V_dot = sᵀ (tau_ext + d) + sᵀ (tau - tau_law)
            - (e_dotᵀ D e_dot + eᵀ Lambda D Lambda e + damping_rate sᵀ M s)

for ``s = e_dot + Lambda e``, and so ``sᵀ D s = e_dotᵀ D e_dot + eᵀ Lambda D Lambda e + d/dt ½ eᵀ K
e``. Here d is what model and friction are wrong by, tau the torque that acts and tau_law what the
law asks for at this instant. The second power is what the *loop* injects: computing takes time, a
command stands for a period, commands are cut to limits. It needs neither accelerations nor the
truth about contacts and masses.

Bounded references. Where speed or position limits bound v_r, s is not ``e_dot + Lambda e``, and
``½ eᵀ K e`` would grow as the arm is pushed away with less work than that. The elastic energy of a
joint is therefore at most what its damping has taken in::

    E_i = min(½ K_i e_i², E_i before + work of D_i s_i²)
    dissipated_i = work of D_i s_i² - change of E_i >= 0

Any E_i >= 0 that rises by no more than the work of ``D_i s_i²`` leaves V a storage: what it holds
was taken from the motion along s. While references are not bounded, E_i is ``½ K_i e_i²``, as the
identity above shows. Beyond soft limits V also holds the energy of their springs, and ``v_rᵀ
tau_spring >= 0`` is dissipated, see :mod:`~rbd_control.control.soft_limits`.

Sampled control. Over a period the command of its beginning acts, while the law's torque moves on to
that of the end. With a straight line between, which is wrong by O(dt²), the loop injects at most::

    bound = ½ dt sum of max(|s|) |tau_law(end) - tau_law(begin)|

so with a right model, no delay and no contact ``V(end) - V(begin) <= bound - dissipated``, to
O(dt³): the quadratures are trapezoids. A delay of k periods injects up to 2k + 1 times as much.

What can be checked online, then, and what cannot: V, the dissipation and the injection are known
with the masses that the model has. Their balance gives ``supplied``, the energy of contacts and of
model errors together; no measurement tells these apart. With an adaptive law V lacks the term
``½ |W_hat - W|² / learning_rate``, as nobody knows W; its energy passes through ``supplied``.

The loop counts as passive while, on average, it injects less than K_D dissipates: the sum of
stores then only falls but for what is supplied. See ``passivity_margin`` and
``passivity_tolerance``; the latter keeps sensor noise and the lag of a moving feed-forward out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isnan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.energy_step import LastSample, balance_step
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_step import law_gains, no_bounds
from rbd_control.dynamics import Model
from rbd_control.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EnergyBalance:
    """Of the period that ends with a sample; energies in J, all zero for the first sample."""

    storage: float
    """V at its end."""
    rise: float
    """V at its end less V at its beginning: supplied - dissipated + injected."""
    dissipated: float
    """By K_D."""
    injected: float
    """By the loop: delay, hold and limits, less what they take out."""
    supplied: float
    """From outside: contacts and errors of the model."""
    bound: float
    """What holding the command for this period can have injected."""
    passive: bool
    """Whether the loop injects less than it dissipates, on average."""


class EnergyMonitor:
    """Follows the storage function of one arm under the law.

    Args:
        model: an arm with a fixed base.
        parameters: of the law, whose gains are used.
        energy: when the loop counts as not passive.
        soft: soft position limits, whose springs store energy; none by default.

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
        self._gains = law_gains(parameters, n)
        self._bounds = no_bounds(n) if soft is None else soft.bounds()
        self._last = LastSample(*(np.zeros(n) for _ in range(4)), *(np.zeros(1) for _ in range(2)))
        self.reset()

    def reset(self) -> None:
        """Start again: the next sample has no period before it."""
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
        """Take one sample in.

        Call :meth:`reset` where the law was not in charge or its target jumped.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d: desired, likewise.
            law: torque of the law for this sample, before any limit, (nv,) [N·m or N].
            acting: torque of the motors since the last sample, (nv,): measured, or else the
                command that was sent then, in which case the delay on its way is not seen.
            dt: time since the last sample [s]; ignored for the first one.
            v_r: reference velocity of the law, (nv,); without it ``v_d - Lambda e``, not bounded.

        Raises:
            InputError: for arguments of the wrong shape or not finite; the monitor is then as it
                was.
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
