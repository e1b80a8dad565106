"""The laws, with gains that can be compared.

With ``D = RATE x mean of diag(M)`` over the motion, all feed back ``D (e_dot + Lambda e)``, on the
mean: the same K_D and the same stiffness ``K_P = D Lambda``::

    PD + gravity       g                             - D (e_dot + Lambda e)
    computed torque    M (a_d - RATE (e_dot + Lambda e)) + C v + g
    Slotine-Li         M (a_d - Lambda e_dot) + C v_r + g - D (e_dot + Lambda e)

What sets Slotine-Li apart beyond that, the damping M Lambda e_dot of a_r and C v_r, is the law.

All compensate the friction that they are told of. The textbook does so at the desired velocity v_d;
our Slotine-Li law does at its reference velocity ``v_r = v_d - Lambda e``, which pulls a joint that
sticks behind its target loose. As that helps any law, all are compared both ways.
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
"""[1/s]"""
RATE = 40.0
"""Of K_D over the mean of diag(M) [1/s]."""
FRICTION_SCALE = 0.1
"""Speed over which the compensated dry friction changes sign [rad/s]."""
PD, COMPUTED_TORQUE, SLOTINE_LI = FIXED = ("PD + gravity", "computed torque", "Slotine-Li")
DESIRED, REFERENCE = FRICTION_AT = ("friction at v_d", "friction at v_r")

Law = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""``(q, v, q_d, v_d, a_d) -> tau``, once a period."""


def gains(arm: Arm, reference: Reference) -> ControllerParameters:
    """Those of the Slotine-Li law; the others have the same."""
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
    """One of the laws :data:`FIXED`, with friction compensated as :data:`FRICTION_AT` says.

    By the description of the arm, or by another ``model`` of it.
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
    """Return the adaptive law, and the controller to ask what it has learned."""
    controller = AdaptiveSlotineLiController(arm.model, parameters, adaptation)

    def law(
        q: np.ndarray, v: np.ndarray, q_d: np.ndarray, v_d: np.ndarray, a_d: np.ndarray
    ) -> np.ndarray:
        return controller.torque(q, v, q_d, v_d, a_d, PERIOD)

    return law, controller
