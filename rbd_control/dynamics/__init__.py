"""Rigid-body dynamics of tree-structured robots: pure functions over a frozen :class:`Model`.

``M(q) a + C(q, v) v + g(q) = tau`` with joint positions q [rad or m], velocities v, accelerations a
and torques tau [N·m or N]. The functions of the state take ``(model, q, ...)`` and never change an
input, except the arrays ``out``, which take the results. They accept leading axes: ``q`` of shape
``(..., nq)`` is a batch of states. Spatial vectors are angular first. The package needs numpy,
numba and defusedxml, and nothing of ROS; :func:`symbolic_dynamics` also needs sympy, and xacro
files the package xacrodoc.
"""

from rbd_control.dynamics.articulated_body import forward_dynamics
from rbd_control.dynamics.christoffel import christoffel_symbols
from rbd_control.dynamics.coriolis import (
    DynamicsTerms,
    coriolis_matrix,
    dynamics_terms,
    mass_matrix,
    mass_matrix_rate,
)
from rbd_control.dynamics.energy import kinetic_energy, potential_energy
from rbd_control.dynamics.frozen import FrozenDynamics, freeze
from rbd_control.dynamics.kinematics import (
    frame_jacobian,
    frame_jacobian_rate,
    frame_placement,
)
from rbd_control.dynamics.model import Model, with_rotors
from rbd_control.dynamics.momentum import (
    MomentumTerms,
    coriolis_transpose_product,
    gravity_torque,
    momentum,
    momentum_terms,
)
from rbd_control.dynamics.newton_euler import inverse_dynamics, slotine_li_torque
from rbd_control.dynamics.papers import soa
from rbd_control.dynamics.papers.base_parameters import BaseParameters, base_parameters
from rbd_control.dynamics.papers.closed_form import (
    ClosedForm,
    ClosedFormTerms,
    closed_form,
    closed_form_inverse_dynamics,
    closed_form_terms,
)
from rbd_control.dynamics.papers.coordinates import (
    TransformedTerms,
    change_christoffel_symbols,
    change_coordinates,
    decoupled_dynamics,
    torque_velocity_derivative,
)
from rbd_control.dynamics.papers.de_luca_ferrajoli import (
    coriolis_matrix_de_luca_ferrajoli,
    modified_newton_euler,
)
from rbd_control.dynamics.papers.gdahj import mass_matrix_gdahj
from rbd_control.dynamics.papers.normal_form import (
    admissible_coriolis_matrix,
    coriolis_matrix_from_body_jacobians,
)
from rbd_control.dynamics.papers.soa import (
    InterbodyForces,
    center_of_mass,
    center_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_matrix,
    composite_inertias,
    composite_inverse_dynamics,
    interbody_forces,
    mass_matrix_trace,
    nullify_momentum,
    system_inertia,
)
from rbd_control.dynamics.papers.symbolic import SymbolicTerms, symbolic_dynamics
from rbd_control.dynamics.papers.task_space import (
    TaskSpaceTerms,
    forward_dynamics_by_mass_matrix,
    task_space_inertia,
    task_space_terms,
)
from rbd_control.dynamics.regressor import (
    inertial_parameter_names,
    inertial_parameters,
    regressor,
)
from rbd_control.dynamics.rotors import Rotor
from rbd_control.dynamics.simulation_step import configuration_rate, simulation_step

__all__ = [
    "BaseParameters",
    "ClosedForm",
    "ClosedFormTerms",
    "DynamicsTerms",
    "FrozenDynamics",
    "InterbodyForces",
    "Model",
    "MomentumTerms",
    "Rotor",
    "SymbolicTerms",
    "TaskSpaceTerms",
    "TransformedTerms",
    "admissible_coriolis_matrix",
    "base_parameters",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "change_christoffel_symbols",
    "change_coordinates",
    "christoffel_symbols",
    "closed_form",
    "closed_form_inverse_dynamics",
    "closed_form_terms",
    "composite_inertias",
    "composite_inverse_dynamics",
    "configuration_rate",
    "coriolis_matrix",
    "coriolis_matrix_de_luca_ferrajoli",
    "coriolis_matrix_from_body_jacobians",
    "coriolis_transpose_product",
    "decoupled_dynamics",
    "dynamics_terms",
    "forward_dynamics",
    "forward_dynamics_by_mass_matrix",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_placement",
    "freeze",
    "gravity_torque",
    "inertial_parameter_names",
    "inertial_parameters",
    "interbody_forces",
    "inverse_dynamics",
    "kinetic_energy",
    "mass_matrix",
    "mass_matrix_gdahj",
    "mass_matrix_rate",
    "mass_matrix_trace",
    "modified_newton_euler",
    "momentum",
    "momentum_terms",
    "nullify_momentum",
    "potential_energy",
    "regressor",
    "simulation_step",
    "slotine_li_torque",
    "soa",
    "symbolic_dynamics",
    "system_inertia",
    "task_space_inertia",
    "task_space_terms",
    "torque_velocity_derivative",
    "with_rotors",
]
