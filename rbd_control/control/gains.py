"""Which gains a loop bears, and the gains of the law.

**Stability of the position loop: its delay, its margin, and the largest gains.**

Without friction each joint obeys, in the small, ``e'' = -F(p) ((Lambda + r) e' + Lambda r e)``,
delayed by T: r is ``damping_rate``, Lambda ``bandwidth``, and F the filter of
:mod:`~rbd_control.control.slotine_li`. The open loop is::

    L(jω) = exp(-jωT) F(jω) ((Lambda + r) jω + Lambda r) / (jω)²

At low frequencies F delays by ``T_F = (RATIO + 2 (WIDE - SHALLOW)) / w`` with the resonance w. The
phase crosses -180 degrees once, at ω_c, if ``T_F + T < 1/r + 1/Lambda``; otherwise no gain is
stable. The gain margin is ``1 / |L(jω_c)|``: the factor by which the feedback may grow before the
loop oscillates. This package requires :data:`LEAST_MARGIN`.

T is the whole delay of the loop: torque is held for one period (half a period of delay on average),
is computed from a sample of up to one period ago, and arrives in position and velocity after the
delay of bus, drive and velocity filter (``loop_delay``).

F keeps the margin with elastic gears, too, whether links or motors are measured, if rotor and gear
have at least a fifth of the inertia of their joint. Lighter rotors that are measured leave less,
because they turn alone above the resonance: 1 at a tenth, 0.6 at a seventeenth
(``test/test_loop.py``). ``check --loop`` shows the ratio; the gains must then be lower by as much.

**Gains of the control law for one arm: ``Lambda = diag(bandwidth)`` and K_D.**

``K_D(q) = diag(damping) + damping_rate M(q)``. Gains of zero follow from the arm. With m_i the
largest inertia M_ii of joint i over the postures of the arm, l_i its least inertia 1/(M⁻¹)_ii while
the other joints move freely, and the effort limit tau_i::

    damping_i   = min(DAMPING_SHARE tau_i, FASTEST_DAMPING l_i)
    bandwidth_i = min((damping_i + damping_rate m_i) / (2 m_i), LARGEST_BANDWIDTH)

The friction of gears is about proportional to the effort limit, and so must be the stiffness
``bandwidth_i damping_i`` of light joints, where ``damping_rate M`` is small. The second bound
limits the decay rate M⁻¹ diag(damping) of an arm without friction and rotor inertia. Where axes are
nearly parallel, l_i is up to a hundred times smaller than m_i.

The resonance of a light joint against its spring is higher than the resonance of a heavy one. With
the inertia :data:`ROTOR` of rotor and gear::

    resonance_i = resonance sqrt(1 + ROTOR / m_i)
"""

from __future__ import annotations

from cmath import exp
from dataclasses import dataclass
from math import inf, pi
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, mass_matrix
from rbd_control.errors import InputError

if TYPE_CHECKING:
    from rbd_control.control.controller_parameters import ControllerParameters

LEAST_MARGIN = 2.0
"""Least gain margin of the loop with which the controller starts."""

RATIO = 4.0
"""Ratio of the lowest resonance of the arm to the corner frequency of the low-pass filter."""

SHALLOW, WIDE = 0.1, 0.8
"""Damping ratios of numerator and denominator of the notch at the resonance."""

HELD = 1.5
"""Delay of the loop by sampling and by holding the torque, in sample periods."""


def filter_response(omega: float, w: float) -> complex:
    """Return F(jω), see :mod:`~rbd_control.control.slotine_li`.

    Args:
        omega: angular frequency ω [rad/s].
        w: resonance [rad/s]; 0 for a rigid arm.
    """
    if w == 0.0:
        return 1.0 + 0.0j
    p = 1j * omega
    notch = (p * p + 2.0 * SHALLOW * w * p + w * w) / (p * p + 2.0 * WIDE * w * p + w * w)
    return w / RATIO / (p + w / RATIO) * notch


@dataclass(frozen=True)
class Loop:
    """A control loop, as far as it limits the gains.

    Attributes:
        period: period of the joint states [s].
        delay: delay of bus, drive and driver, see the parameter ``loop_delay`` [s].
        resonance: lowest resonance of the arm [Hz]; 0 for a rigid arm.
    """

    period: float
    delay: float
    resonance: float

    @property
    def total_delay(self) -> float:
        """Whole delay T of the loop, without the filter [s]."""
        return HELD * self.period + self.delay

    def margin(self, damping_rate: float, bandwidth: float) -> float:
        """Return the gain margin with two gains [1/s]; 0 if no gain is stable in this ratio."""
        total, product = damping_rate + bandwidth, damping_rate * bandwidth
        T, w = self.total_delay, 2.0 * pi * self.resonance

        def response(omega: float) -> complex:
            """Return -L(jω), whose phase is positive below the crossover."""
            filtered = filter_response(omega, w) * exp(-1j * omega * T)
            return filtered * (total * 1j * omega + product) / omega**2

        # Steps of 0.5 %, from far below all poles to where the delay alone is a turn.
        omega, highest = 0.1, 2.0 * pi / T if T > 0.0 else 1e4
        if response(omega).imag <= 0.0:
            return 0.0
        while omega < highest:
            omega *= 1.005
            if response(omega).imag <= 0.0:
                return 1.0 / abs(response(omega))
        return inf

    def largest_rate(self, ratio: float = 0.5, margin: float = LEAST_MARGIN) -> float:
        """Return the largest ``damping_rate`` [1/s] with a gain margin, at most 2000 1/s.

        Args:
            ratio: ``bandwidth`` divided by ``damping_rate``.
            margin: the gain margin.
        """
        low, high = 1e-3, 2000.0
        if self.margin(high, ratio * high) >= margin:
            return high
        for _ in range(40):
            middle = (low * high) ** 0.5
            if self.margin(middle, ratio * middle) >= margin:
                low = middle
            else:
                high = middle
        return low

    def require(self, damping_rate: float, bandwidth: float) -> None:
        """Raise an error for gains with a margin below :data:`LEAST_MARGIN`.

        Raises:
            InputError: naming the gains, the loop and the largest gains.
        """
        margin = self.margin(damping_rate, bandwidth)
        if margin >= LEAST_MARGIN:
            return
        ratio = bandwidth / damping_rate if damping_rate > 0.0 else 0.5
        most = self.largest_rate(ratio)
        rate = f"at {1.0 / self.period:.3g} Hz " if self.period > 0.0 else ""
        raise InputError(
            f"damping_rate {damping_rate:.4g} with bandwidth {bandwidth:.4g} is too high for a "
            f"loop {rate}with loop_delay {1e3 * self.delay:.3g} ms and "
            f"resonance {self.resonance:.3g} Hz: its gain margin is {margin:.2g}, at least "
            f"{LEAST_MARGIN:g} is required; at most {most:.3g} and {ratio * most:.3g} are allowed. "
            f"Lower the gains, or measure the loop: rbd-control check --loop"
        )


Array = NDArray[np.float64]

DAMPING_SHARE = 0.03
"""Constant damping per effort limit [s/rad or s/m]."""

FASTEST_DAMPING = 40.0
"""Largest decay rate of a joint by its constant damping [1/s].

With the default gains and without any friction, the arm that ships with the package is stable in
30 random postures for commands up to 5 ms late (``test/test_gains.py``).
"""

LARGEST_BANDWIDTH = 15.0
"""Largest bandwidth that follows from the arm [1/s]."""

LIGHTEST = 0.003
"""Assumed least inertia of rotor and gear of each joint, for its damping [kg·m²]."""

ROTOR = 0.2
"""Assumed inertia of rotor and gear of each joint, for its resonance alone [kg·m²]."""

POSTURES = 32
"""Number of random postures over which the inertias of a joint are determined."""


class LawGains(NamedTuple):
    """Gains of the law for n joints: Lambda, and ``K_D = diag(damping) + damping_rate M``.

    Attributes:
        Lambda: parameter ``bandwidth``, (n,) [1/s].
        damping: parameter ``damping``, (n,) [N·m·s/rad or N·s/m].
        damping_rate: parameter ``damping_rate`` [1/s].
    """

    Lambda: Array
    damping: Array
    damping_rate: float


def law_gains(parameters: ControllerParameters, model: Model) -> LawGains:
    """Return the gains of the law; gains of zero follow from the arm, see the module.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    n, rate = model.nv, parameters.damping_rate
    Lambda = parameters.for_joints("bandwidth", n)
    damping = parameters.for_joints("damping", n)
    if Lambda.all() and damping.all():
        return LawGains(Lambda, damping, rate)
    m = largest_inertia(model)
    given = parameters.for_joints("effort_limit", n)
    effort = np.where(given > 0.0, given, model.effort_limit)
    usual = np.minimum(DAMPING_SHARE * effort, FASTEST_DAMPING * least_inertia(model))
    damping = np.where(damping > 0.0, damping, usual)
    follows = np.minimum((damping / m + rate) / 2.0, LARGEST_BANDWIDTH)
    return LawGains(np.where(Lambda > 0.0, Lambda, follows), damping, rate)


def resonances(resonance: float, model: Model) -> Array:
    """Return the resonance of each joint, (nv,) [Hz], see the module.

    Args:
        resonance: lowest resonance of the arm [Hz]; 0 for a rigid arm.
        model: the arm.
    """
    if resonance == 0.0:
        return np.zeros(model.nv)
    return np.asarray(resonance * np.sqrt(1.0 + ROTOR / largest_inertia(model)))


def largest_inertia(model: Model) -> Array:
    """Return the largest M_ii over random postures, (nv,), at least LIGHTEST [kg·m² or kg]."""
    diagonal = np.diagonal(_mass_matrices(model), axis1=1, axis2=2)
    return np.maximum(diagonal.max(axis=0), LIGHTEST)


def least_inertia(model: Model) -> Array:
    """Return the least 1/((M + LIGHTEST I)⁻¹)_ii over random postures, (nv,) [kg·m² or kg]."""
    inverse = np.linalg.inv(_mass_matrices(model) + LIGHTEST * np.eye(model.nv))
    return np.asarray(1.0 / np.diagonal(inverse, axis1=1, axis2=2).max(axis=0))


def _mass_matrices(model: Model) -> Array:
    """Return M in random postures, (POSTURES, nv, nv)."""
    endless = ~np.isfinite(model.upper_limit - model.lower_limit)
    lower = np.where(endless, -np.pi, model.lower_limit)
    upper = np.where(endless, np.pi, model.upper_limit)
    q = np.random.default_rng(0).uniform(lower, upper, (POSTURES, model.nv))
    return mass_matrix(model, q)
