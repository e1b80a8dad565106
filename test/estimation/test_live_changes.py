"""Changes of parameters and of the model while the detector runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from detector_bench import PARAMETERS, Bench, on_joint
from robots import panda_arm_urdf

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

ARM = Model.from_urdf(arm7_urdf())
CUTOFF = 50.0
DELAY = 1.0 / (2.0 * np.pi * CUTOFF)


@pytest.fixture(scope="module")
def panda() -> Model:
    return Model.from_urdf(panda_arm_urdf())


@pytest.mark.parametrize("change", ["parameters"])
def test_a_change_keeps_the_delayed_torque(change: str) -> None:
    """The delay began anew, and the torque of the last milliseconds looked like a contact."""
    parameters = DetectorParameters(velocity_delay=DELAY, contact_threshold=(100.0,))
    detectors = [ContactDetector(ARM, parameters) for _ in range(2)]
    pose = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
    simulation = SimulationParameters(initial_position=pose, velocity_cutoff=CUTOFF, seed=2)
    plant = SimulatedArm(ARM, simulation)
    for k in range(110):
        torque = gravity_torque(ARM, plant.q)
        torque[0] += 0.0 if k < 90 else 20.0 if k < 100 else -80.0
        plant.step(torque)
        sample = plant.reading()
        assert sample is not None
        if k == 102:  # the torque changed by 100 N·m two samples ago
            if change == "model":
                detectors[0].set_model(ARM)
            else:
                detectors[0].set_parameters(replace(parameters, release_ratio=0.5))
        changed, unchanged = (
            each.update(sample.stamp, sample.q, sample.v, sample.tau) for each in detectors
        )
        assert not changed.dropped
        np.testing.assert_allclose(changed.residual, unchanged.residual, atol=1e-9)


def test_a_longer_settling_time_keeps_a_contact(panda: Model) -> None:
    """The contact and the verdict ended, and the contact was reported again after that time."""
    bench = Bench(panda)
    bench.jitter = 1e-6
    bench.run(0.5)
    assert bench.run(0.3, on_joint(1, 3.0))[-1].contact
    bench.detector.set_parameters(replace(PARAMETERS, settling_time=2.0))
    after = bench.run(0.2, on_joint(1, 3.0))
    assert all(each.valid and each.contact for each in after)
    assert [event.phase for event in bench.events] == ["onset"]
    # The new time counts from the next restart on.
    bench.t += 1.0
    assert not bench.run(1.9)[-1].valid
    assert bench.run(0.2)[-1].valid
