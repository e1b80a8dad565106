"""Rigid-body dynamics of tree-structured robots: pure functions over a frozen :class:`Model`.

``M(q) a + C(q, v) v + g(q) = tau``. All functions take ``(model, q, ...)``, never change an input
and accept leading axes. Spatial vectors are angular first. Imports numpy and numba, nothing of
ROS.
"""

from rbd_control.dynamics.articulated_body import forward_dynamics
from rbd_control.dynamics.christoffel import christoffel_symbols
from rbd_control.dynamics.coordinates import (
    TransformedTerms,
    change_christoffel_symbols,
    change_coordinates,
    decoupled_dynamics,
    torque_velocity_derivative,
)
from rbd_control.dynamics.coriolis import (
    DynamicsTerms,
    coriolis_matrix,
    dynamics_terms,
    mass_matrix,
    mass_matrix_rate,
)
from rbd_control.dynamics.energy import kinetic_energy, potential_energy
from rbd_control.dynamics.factorizations import (
    admissible_coriolis_matrix,
    coriolis_matrix_from_body_jacobians,
)
from rbd_control.dynamics.kinematics import (
    frame_jacobian,
    frame_jacobian_rate,
    frame_placement,
)
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.momentum import (
    MomentumTerms,
    coriolis_transpose_product,
    gravity_torque,
    momentum,
    momentum_terms,
)
from rbd_control.dynamics.newton_euler import inverse_dynamics, slotine_li_torque
from rbd_control.dynamics.rotors import Rotor, with_rotors

__all__ = [
    "DynamicsTerms",
    "Model",
    "MomentumTerms",
    "Rotor",
    "TransformedTerms",
    "admissible_coriolis_matrix",
    "change_christoffel_symbols",
    "change_coordinates",
    "christoffel_symbols",
    "coriolis_matrix",
    "coriolis_matrix_from_body_jacobians",
    "coriolis_transpose_product",
    "decoupled_dynamics",
    "dynamics_terms",
    "forward_dynamics",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_placement",
    "gravity_torque",
    "inverse_dynamics",
    "kinetic_energy",
    "mass_matrix",
    "mass_matrix_rate",
    "momentum",
    "momentum_terms",
    "potential_energy",
    "slotine_li_torque",
    "torque_velocity_derivative",
    "with_rotors",
]
