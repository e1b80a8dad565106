"""Your own observer of the external torque: a moving average instead of a filter with a pole.

From the momentum balance p_dot = tau + Cᵀv - g + tau_ext follows, exactly, the mean external
torque of the last n samples, which forgets everything older:

    r = (p_k - p_(k-n)) / (n dt) - mean of (tau + Cᵀv - g)

The simulated arm floats and is pushed with 20 N on link_7 from 0.2 to 0.4 s. Prints the delay after
which each observer has 90 % of the torque, and its error at the end of the push.
"""

from collections import deque

import numpy as np

from rbd_control.dynamics import Model, gravity_torque, momentum_terms
from rbd_control.estimation import MomentumObserver
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf


class WindowObserver:
    """The mean external torque of the last ``n`` periods ``dt`` [s]."""

    def __init__(self, model: Model, n: int) -> None:
        self.model, self.past = model, deque(maxlen=n + 1)

    def update(self, q, v, tau, dt):
        """Return the external torque (nv,) [N·m or N]; zero for the first sample."""
        p, CTv, g = momentum_terms(self.model, q, v)
        self.past.append((p, tau + CTv - g))
        n = len(self.past) - 1
        if n == 0:
            return np.zeros_like(p)
        rates = np.array([rate for _, rate in self.past])
        mean = (rates[:-1] + rates[1:]).mean(axis=0) / 2.0
        return (p - self.past[0][0]) / (n * dt) - mean


model, dt = Model.from_urdf(arm7_urdf()), 0.001
start = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
arm = SimulatedArm(model, SimulationParameters(start, coulomb=(0.0,), viscous=(0.0,)))
observers = {"window of 20 ms": WindowObserver(model, 20), "gain 50/s": MomentumObserver(model, 50)}
found = {name: [] for name in observers}
truth = []
for k in range(400):
    if k == 200:
        arm.push("link_7", (0.0, 20.0, 0.0), duration=0.2)
    arm.step(gravity_torque(model, arm.q) - 2.0 * arm.v)
    sample = arm.reading()
    truth.append(arm.external_torque)
    for name, observer in observers.items():
        found[name].append(observer.update(sample.q, sample.v, sample.tau, dt))
joint = int(np.abs(truth[-1]).argmax())
for name, residuals in found.items():
    share = np.array(residuals)[200:, joint] / np.array(truth)[200:, joint]
    delay = int((share > 0.9).argmax()) + 1
    print(f"{name}: 90 % after {delay} ms, {abs(share[-1] - 1.0):.1%} error at the end")
