"""Spatial operator algebra: the operators of a tree, and the O(N) sweeps that evaluate them.

A. Jain, *Spatial Operator Algebra (SOA) 4: Serial-Chain Rigid Body Dynamics*, JPL DARTS Lab, 2024
(J24), extended to trees with prismatic joints, rotors and a floating base. Notation of the source
and of this package:

===========================  =======================================================================
J24                          here
===========================  =======================================================================
bodies 1 (tip) to n (base)   rows 0 (base) to n - 1, parents before children: phi and phi~ are upper
                             block triangular, J24's lower. ``phi(k, k - 1)`` is ``phi(parent, k)``.
a chain                      a tree: ``phi(i, j)`` is zero unless j is i or hangs from it.
x* (adjoint)                 xᵀ; ``.T`` in code.
bold M, R, script M          ``M``, ``R``, and ``H @ phi @ M @ phi.T @ H.T``, the mass matrix.
theta_dot, theta_ddot, T     v, a, tau.
V(k), f(k), in body axes     the same with ``frame="body"``; V_I with ``frame="inertial"``.
hinge of r degrees, H(k)     r rows. A floating root is six, the first five without mass; all six
                             columns of its joint are fixed in the root.
(none)                       a rotor is a row whose parent is the body that carries the rotor; H
                             adds its torque to that of its joint.
E, of the base body          all bodies on the world (a fixed base may carry several trees), in
                             world axes about the world's origin or that of a floating root.
g (pseudo-acceleration)      ``E.T`` of minus gravity, the acceleration of the base.
===========================  =======================================================================

:mod:`.operators` contains operators as objects that can be composed and inspected, and
:mod:`.composite` and :mod:`.centroidal` the compiled functions for programs, which gather from the
tips to the base or scatter from the base to the tips. No algorithm forms a matrix of all bodies.

Corrections of the source: "Alternative expression for forces" has ``H* theta_dot`` where the
acceleration is meant. The derivation of the decomposition lacks the adjoint of the last factor in
``(phi~ + 1) R (phi~ + 1)*``. In "Including external forces and gravity" the ``g`` that is added to
every alpha is the pseudo-acceleration in the frame of that body.
"""

from rbd_control.dynamics.papers.soa.centroidal import (
    center_of_mass,
    center_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_matrix,
    nullify_momentum,
    system_inertia,
)
from rbd_control.dynamics.papers.soa.composite import (
    InterbodyForces,
    composite_inertias,
    composite_inverse_dynamics,
    gather,
    gather_inertias,
    interbody_forces,
    mass_matrix_trace,
    scatter,
)
from rbd_control.dynamics.papers.soa.operators import (
    Operator,
    SpatialOperators,
    link_operator,
    spatial_operators,
)

__all__ = [
    "InterbodyForces",
    "Operator",
    "SpatialOperators",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "composite_inertias",
    "composite_inverse_dynamics",
    "gather",
    "gather_inertias",
    "interbody_forces",
    "link_operator",
    "mass_matrix_trace",
    "nullify_momentum",
    "scatter",
    "spatial_operators",
    "system_inertia",
]
