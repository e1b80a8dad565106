"""Gains of the control law for one arm: ``Lambda = diag(bandwidth)`` and K_D.

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

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, mass_matrix

if TYPE_CHECKING:
    from rbd_control.control.controller_parameters import ControllerParameters

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
