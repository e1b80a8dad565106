"""Design a short motion that shows friction and masses of an arm, and what it will determine.

`rbd-control excite` does the same with more candidates, prints tables and draws the sweep.
"""

import numpy as np

from rbd_control.excitation import Designer, Request, Rounds
from rbd_control.robot import Robot

# Twenty seconds, once forward and once backward at half the speed, in a box, above the floor.
request = Request(
    rounds=Rounds((1.0, -0.5), 20.0),
    box=(-0.8, 0.8, -0.8, 0.8, -0.1, 1.3),
    share=0.5,
    candidates=40,
    steps=120,
)
designer = Designer(Robot.load("arm7"), request)
design = designer.run()

t, q, v, a = design.motion.sampled(0.01)
low, high = design.space.swept(q)
print(f"{t[-1]:.0f} s from {np.round(design.motion.start, 2)}")
print(f"sweeps x {low[0]:.2f} to {high[0]:.2f}, z {low[2]:.2f} to {high[2]:.2f} m")
print(f"largest share of a speed limit: {(np.abs(v) / design.limits.velocity).max():.2f}")

errors = dict(zip(design.observability.names, design.errors, strict=True))
for joint, name in enumerate(design.motion.joints):
    friction, rotor = errors[joint, "coulomb"], errors[joint, "rotor_inertia"]
    print(f"{name}: Coulomb ± {friction:.2g} N·m, rotor ± {rotor:.2g} kg·m²")
print(f"torque error on other motions: {design.measure:.2f} of the noise")
