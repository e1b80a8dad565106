"""A Slotine-Li controller with a law of your own: a pull towards the path of limited speed.

The reference velocity v_r = v_d - c tanh(e / w) closes in with at most c, however far the arm is
away; everything else is `slotine_li_torque`, which returns M a_r + C v_r + g in one pass. As long
as a_r is the derivative of v_r, the energy V = ½ sᵀMs of s = v - v_r only falls, whatever the law:
that is the proof of passivity, checked here on a simulated arm without friction. Prints the
tracking error, V at the start and at the end, and its largest rise in a step, due to sampling.
"""

import numpy as np

from rbd_control.dynamics import Model, mass_matrix, slotine_li_torque
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

SPEED, WIDTH = 0.5, 0.1  # c [rad/s] and w [rad]
DAMPING = 20.0  # K_D = DAMPING M [1/s]
model = Model.from_urdf(arm7_urdf())
home = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])


def desired(t):
    """Return position, velocity and acceleration of the path at time t [s]."""
    w, reach = 2.0, 0.3
    q = home + reach * np.sin(w * t)
    return q, np.full(7, reach * w * np.cos(w * t)), np.full(7, -reach * w**2 * np.sin(w * t))


def law(q, v, t):
    """Return the torque and s = v - v_r, (nv,) each [N·m, rad/s]."""
    q_d, v_d, a_d = desired(t)
    pull = np.tanh((q - q_d) / WIDTH)
    v_r = v_d - SPEED * pull
    a_r = a_d - SPEED / WIDTH * (1.0 - pull**2) * (v - v_d)
    s = v - v_r
    return slotine_li_torque(model, q, v, v_r, a_r - DAMPING * s), s


start = tuple(home + 0.4)  # 0.4 rad beside the path
arm = SimulatedArm(model, SimulationParameters(start, coulomb=(0.0,), viscous=(0.0,)))
energies = []
for _ in range(3000):
    tau, s = law(arm.q, arm.v, arm.time)  # in the node: the measured ones
    energies.append(0.5 * s @ mass_matrix(model, arm.q) @ s)
    arm.step(tau)
error = np.abs(arm.q - desired(arm.time)[0]).max()
print(f"tracking error: 400 mrad at the start, {1000.0 * error:.2f} mrad after {arm.time:.0f} s")
print(f"energy of s: {energies[0]:.3f} J at the start, {energies[-1]:.0e} J at the end")
print(f"largest rise in a step: {max(np.diff(energies)):.0e} J")
