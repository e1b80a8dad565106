"""Spatial operator algebra: the operators of a tree, and the O(N) sweeps they stand for.

A. Jain, *Spatial Operator Algebra (SOA) 4: Serial-Chain Rigid Body Dynamics*, JPL DARTS Lab, 2024
(J24), made to hold on trees with prismatic joints, rotors and a floating base. How its notation
reads here:

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
(none)                       a rotor is a row on the body it rides on; H adds it to its joint's.
E, of the base body          all bodies on the world, in world axes about its origin, or about that
                             of a floating root: a fixed base may carry several trees.
g (pseudo-acceleration)      ``E.T`` of minus gravity: the base falls upward.
===========================  =======================================================================

:mod:`.operators` has them as objects to compose and to look at, :mod:`.recursions` the gather and
scatter sweeps they run as, :mod:`.composite` and :mod:`.centroidal` what a program calls, compiled.
No algorithm forms a matrix of all bodies.

Slips of the source: "Alternative expression for forces" has ``H* theta_dot`` where the acceleration
is meant; the derivation of the decomposition lacks the adjoint of the last factor in
``(phi~ + 1) R (phi~ + 1)*``; on "Including external forces and gravity" the ``g`` added to every
alpha stands for the pseudo-acceleration in that body's own frame.
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
    interbody_forces,
    mass_matrix_trace,
)
from rbd_control.dynamics.papers.soa.operators import (
    Operator,
    SpatialOperators,
    link_operator,
    spatial_operators,
)
from rbd_control.dynamics.papers.soa.recursions import gather, gather_inertias, scatter

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
