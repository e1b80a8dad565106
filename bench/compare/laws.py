"""The compared control laws, with equal feedback gains.

With ``D = RATE x mean of diag(M)`` over the motion, all laws use the feedback
``D (e_dot + Lambda e)`` on average: the same K_D and the same stiffness ``K_P = D Lambda``::

    PD + gravity       g                             - D (e_dot + Lambda e)
    computed torque    M (a_d - RATE (e_dot + Lambda e)) + C v + g
    Slotine-Li         M (a_d - Lambda e_dot) + C v_r + g - D (e_dot + Lambda e)

The remaining differences of Slotine-Li, the damping M Lambda e_dot in a_r and the term C v_r,
belong to the law itself.

All laws compensate the same friction model. The textbook laws use the desired velocity v_d; our
Slotine-Li law uses its reference velocity ``v_r = v_d - Lambda e``, which releases a joint that
sticks behind its target. Because this improves any law, all laws are compared with both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.contacts.arms import Arm
from bench.contacts.motion import Reference
from bench.contacts.plant import PERIOD, typical_friction
from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
)
from rbd_control.dynamics import (
    Model,
    gravity_torque,
    inverse_dynamics,
    mass_matrix,
    slotine_li_torque,
)

LAMBDA = 20.0
"""Lambda, the decay rate of the position error on s = 0 [1/s]."""
RATE = 40.0
"""Ratio of the damping gain D (K_D) to the mean of diag(M) [1/s]."""
FRICTION_SCALE = 0.1
"""Velocity scale of the compensated Coulomb friction [rad/s]."""
PD, COMPUTED_TORQUE, SLOTINE_LI = FIXED = ("PD + gravity", "computed torque", "Slotine-Li")
DESIRED, REFERENCE = FRICTION_AT = ("friction at v_d", "friction at v_r")

Law = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A law ``(q, v, q_d, v_d, a_d) -> tau``, called once per period."""


def gains(arm: Arm, reference: Reference) -> ControllerParameters:
    """Return the gains and the friction model of all laws, as parameters of the Slotine-Li law.

    Args:
        arm: the arm.
        reference: the desired motion, over which diag(M) is averaged.
    """
    inertia = np.diagonal(mass_matrix(arm.model, reference.q[::50]), axis1=1, axis2=2).mean(axis=0)
    coulomb, viscous = typical_friction(arm.model)
    return ControllerParameters(
        bandwidth=(LAMBDA,),
        damping=tuple(RATE * inertia),
        damping_rate=0.0,
        friction_model="coulomb_viscous",
        friction_coulomb=tuple(coulomb),
        friction_viscous=tuple(viscous),
        friction_velocity_scale=(FRICTION_SCALE,),
    )


def fixed(
    name: str,
    friction_at: str,
    arm: Arm,
    parameters: ControllerParameters,
    model: Model | None = None,
) -> Law:
    """Return one of the laws :data:`FIXED`.

    Args:
        name: name of the law.
        friction_at: velocity of the friction compensation, of :data:`FRICTION_AT`.
        arm: the arm.
        parameters: gains and friction, from :func:`gains`.
        model: model of the arm in the law; by default its description.
    """
    model = arm.model if model is None else model
    D = parameters.for_joints("damping", model.nv)
    friction = parameters.friction(model.nv)

    def law(
        q: np.ndarray, v: np.ndarray, q_d: np.ndarray, v_d: np.ndarray, a_d: np.ndarray
    ) -> np.ndarray:
        v_r = v_d - LAMBDA * (q - q_d)
        s = v - v_r
        if name == PD:
            tau = gravity_torque(model, q) - D * s
        elif name == COMPUTED_TORQUE:
            tau = inverse_dynamics(model, q, v, a_d - RATE * s)
        else:
            tau = slotine_li_torque(model, q, v, v_r, a_d - LAMBDA * (v - v_d)) - D * s
        return tau + friction.torque(v_d if friction_at == DESIRED else v_r)

    return law


def adaptive(
    arm: Arm, parameters: ControllerParameters, adaptation: AdaptationParameters
) -> tuple[Law, AdaptiveSlotineLiController]:
    """Return the adaptive Slotine-Li law, and its controller, which has the estimates.

    Args:
        arm: the arm.
        parameters: gains and friction, from :func:`gains`.
        adaptation: parameters of the adaptation.
    """
    controller = AdaptiveSlotineLiController(arm.model, parameters, adaptation)

    def law(
        q: np.ndarray, v: np.ndarray, q_d: np.ndarray, v_d: np.ndarray, a_d: np.ndarray
    ) -> np.ndarray:
        return controller.torque(q, v, q_d, v_d, a_d, PERIOD)

    return law, controller
