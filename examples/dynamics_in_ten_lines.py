"""The dynamics of an arm in ten lines.

Prints the torque that holds the arm against gravity, the error of forward after inverse dynamics,
and the power vᵀ(Ṁ - 2C)v, which is zero because C is built from the Christoffel symbols.
"""

import numpy as np

from rbd_control.dynamics import Model, dynamics_terms, forward_dynamics, mass_matrix_rate
from rbd_control.simulation import arm7_urdf

model = Model.from_urdf(arm7_urdf())  # or the path of your robot's URDF
q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, model.nv))
M, C, CTv, g = dynamics_terms(model, q, v)  # one sweep over the bodies
tau = M @ a + C @ v + g
power = v @ (mass_matrix_rate(model, q, v) - 2.0 * C) @ v
print("gravity torque:", g.round(2), "N·m")
print(f"forward after inverse dynamics: {np.abs(forward_dynamics(model, q, v, tau) - a).max():.0e}")
print(f"power of Mdot - 2C: {power:.0e} W")
