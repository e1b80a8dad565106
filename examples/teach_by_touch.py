"""Teach by touch: the arm floats, a hand leads it, and each place where the hand lets go is stored.

The hand is a push on the tool of the simulated arm, the end of a touch is the release of a contact
of the detector. Then the arm follows the stored places by itself. Prints the touched link of each
place, and how closely the arm comes to the last one.
"""

import numpy as np

from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

FRICTION = {
    "friction_model": "coulomb_viscous",
    "friction_coulomb": (0.5,),
    "friction_viscous": (0.5,),
}
LAW = {"resonance": 0.0, "loop_delay": 0.002, "bandwidth": (20.0,), "damping_rate": 40.0}
LAW |= {"friction_velocity_scale": (0.1,)}
model = Model.from_urdf(arm7_urdf())
home = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
arm = SimulatedArm(model, SimulationParameters(home, rate=500.0))
controller = PassivityController(model, ControllerParameters(**FRICTION, **LAW))
levels = {"contact_threshold": (1.0,), "collision_threshold": (40.0,), "velocity_delay": 0.0016}
detector = ContactDetector(model, DetectorParameters(**FRICTION, **levels))
sample = arm.reading()
controller.start(sample.stamp, sample.q, sample.v)
controller.modes.order("float")
places = []


def run(duration):
    """Let the arm move for a time [s]; store the place at the end of each touch."""
    for _ in range(round(500 * duration)):
        sample = arm.reading()
        event = detector.update(sample.stamp, sample.q, sample.v, sample.tau).event
        if event and not event.is_onset and controller.mode == "float":
            places.append(sample.q)
            print(f"place {len(places)}: led at {event.link}")
        arm.step(controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau).torque)


run(0.5)
for force in ((0.0, 8.0, 0.0), (6.0, -6.0, 6.0)):
    arm.push("tool", force, duration=1.0)
    run(2.0)
print(controller.resume())
route = [TrajectoryPoint(home, time_from_start=3.0)]
route += [TrajectoryPoint(q, time_from_start=5.0 + 2.0 * k) for k, q in enumerate(places)]
controller.set_trajectory(model.joint_names, route)
run(2.0 * len(route) + 1.5)
print(f"{1000.0 * np.abs(arm.q - places[-1]).max():.1f} mrad from place {len(places)}")
