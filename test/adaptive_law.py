"""Parameters, states and a learned law for the tests of the adaptive law."""

from __future__ import annotations

import numpy as np

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
)
from rbd_control.dynamics import Model
from rbd_control.simulation import arm7_urdf

PARAMETERS = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))
FRICTION = ControllerParameters(
    bandwidth=(20.0,),
    damping_rate=30.0,
    damping=(2.0,),
    friction_model="coulomb_viscous",
    friction_coulomb=(0.5, 0.6, 0.4, 0.3, 0.2, 0.5, 0.1),
    friction_viscous=(0.4,),
    friction_offset=(0.1,),
    friction_velocity_scale=(0.1,),
)
EVERY_LINK = AdaptationParameters(adapted_links=("all",))
SEVERAL = AdaptationParameters(adapted_links=("tool", "link_4"))
COM, INERTIA = np.array([0.02, -0.03, 0.06]), np.diag([0.006, 0.007, 0.005])

State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arm7() -> Model:
    """Return the shipped arm."""
    return Model.from_urdf(arm7_urdf())


def random_state(n: int, seed: int = 0) -> State:
    """Return random q, v, q_d, v_d and a_d, (n,) each."""
    q, v, q_d, v_d, a_d = np.random.default_rng(seed).uniform(-1.0, 1.0, (5, n))
    return q, v, q_d, v_d, a_d


def learned() -> AdaptiveSlotineLiController:
    """Return a law for two links and friction that has learned from 20 random states."""
    law = AdaptiveSlotineLiController(arm7(), FRICTION, SEVERAL)
    for seed in range(20):
        law.torque(*random_state(7, seed), dt=1e-3)
    return law
