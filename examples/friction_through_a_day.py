"""Friction through a day: it falls by 25 % as the arm warms up, and the detector follows it.

The motion of the shipped arm is prescribed, and its efforts follow from inverse dynamics plus a
friction that changes; each hour is shortened to a minute of motion. Prints the true and the
learned change of friction, the number of contacts, none of which would be real, and the share of
the last hour that a detector without `follow_friction` reports as contact.
"""

from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.simulation import arm7_urdf

RATE, HOUR = 100, 60.0  # samples per second; length of an hour of the day [s]
COULOMB, VISCOUS, SCALE = 2.0, 2.5, 0.03  # N·m, N·m·s/rad, rad/s

model = Model.from_urdf(arm7_urdf())
parameters = DetectorParameters(
    friction_model="coulomb_viscous",
    friction_coulomb=(COULOMB,),
    friction_viscous=(VISCOUS,),
    friction_velocity_scale=(SCALE,),
    contact_threshold=(0.5,),
    collision_threshold=(20.0,),
    observer_gain=(20.0,),
)
detector = ContactDetector(model, parameters)
contacts = 0
random = np.random.default_rng(0)
w, phase = 2.0 * np.pi / random.uniform(3.0, 7.0, 7), random.uniform(0.0, 6.0, 7)
centre = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
print("hour   true change   learned on joint_2")
for hour in range(8):
    t = HOUR * hour + np.arange(1, RATE * HOUR + 1) / RATE
    angle = w * t[:, None] + phase
    q, v, a = centre + 0.5 * np.sin(angle), 0.5 * w * np.cos(angle), -0.5 * w**2 * np.sin(angle)
    change = -0.25 * (1.0 - np.exp(-t / (2.0 * HOUR)))[:, None]
    friction = (1.0 + change) * (COULOMB * np.tanh(v / SCALE) + VISCOUS * v)
    tau = inverse_dynamics(model, q, v, a) + friction + random.normal(0.0, 0.1, q.shape)
    found = detector.update_block(t, q, v, tau)
    contacts += sum(event.is_onset for _, event in found.events)
    joint = detector.drift[1]
    learned = f"{joint.share:15.1%} ± {joint.share_uncertainty:.1%}"
    print(f"{hour + 1:4d} {change[-1, 0]:12.1%} {learned}")
print("false contacts of the day:", contacts)
fixed = ContactDetector(model, replace(parameters, follow_friction=False))
last = fixed.update_block(t, q, v, tau)
print(f"without follow_friction: {last.contact.mean():.0%} of the last hour is contact")
