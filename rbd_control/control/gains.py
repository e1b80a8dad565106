"""Gains of the control law for one arm: ``Lambda = diag(bandwidth)`` and K_D.

``K_D(q) = diag(damping) + damping_rate M(q)``. Gains of zero follow from the arm. With m_i the
largest inertia M_ii of joint i over the postures of the arm, and the effort limit tau_i::

    damping_i   = min(DAMPING_SHARE tau_i, FASTEST_DAMPING m_i)
    bandwidth_i = min((damping_i + damping_rate m_i) / (2 m_i), LARGEST_BANDWIDTH)

The friction of gears is about proportional to the effort limit, and so must be the stiffness
``bandwidth_i damping_i`` of light joints, where ``damping_rate M`` is small. The second bound
limits the decay rate of a joint without friction and rotor inertia, while the other joints rest.
Where axes are nearly parallel, the rate is higher, up to 730 1/s on the arm that ships with the
package: an arm without any friction, mostly a simulated one, needs a ``damping`` of its own.

The resonance of a light joint against its spring is higher than the resonance of a heavy one. With
the inertia :data:`ROTOR` of rotor and gear::

    resonance_i = resonance sqrt(1 + ROTOR / m_i)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, mass_matrix

if TYPE_CHECKING:
    from rbd_control.control.controller_parameters import ControllerParameters

Array = NDArray[np.float64]

DAMPING_SHARE = 0.03
"""Constant damping per effort limit [s/rad or s/m]."""

FASTEST_DAMPING = 60.0
"""Largest decay rate of a joint by its constant damping, while the others rest [1/s]."""

LARGEST_BANDWIDTH = 15.0
"""Largest bandwidth that follows from the arm [1/s]."""

LIGHTEST = 0.003
"""Least inertia m_i that is assumed: a wrist alone has less, but its motor has more [kg·m²]."""

ROTOR = 0.2
"""Assumed inertia of rotor and gear of each joint, for its resonance alone [kg·m²]."""

POSTURES = 32
"""Number of random postures over which the largest inertia of a joint is determined."""


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
    usual = np.minimum(DAMPING_SHARE * effort, FASTEST_DAMPING * m)
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
    endless = ~np.isfinite(model.upper_limit - model.lower_limit)
    lower = np.where(endless, -np.pi, model.lower_limit)
    upper = np.where(endless, np.pi, model.upper_limit)
    q = np.random.default_rng(0).uniform(lower, upper, (POSTURES, model.nv))
    diagonal = np.diagonal(mass_matrix(model, q), axis1=1, axis2=2)
    return np.maximum(diagonal.max(axis=0), LIGHTEST)
