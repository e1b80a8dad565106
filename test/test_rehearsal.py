"""After its rehearsal a node neither compiles nor loads code: an arm would wait for its torque."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from rbd_control.estimation import DetectorParameters
from rbd_control.startup.rehearsal import selects_other_code

# In a process of its own, where no other test has called anything yet.
PRELUDE = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from rbd_control.control import *
from rbd_control.estimation import *
from rbd_control.joint_states import JointStateIntake
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf
from rbd_control.startup.rehearsal import *

model = Model.from_urdf(arm7_urdf())
rest, zero = np.zeros(7), np.zeros(7)
weight = gravity_torque(model, rest)

def kernels():
    return {
        f"{name}.{key}": len(value.signatures)
        for name, module in list(sys.modules.items()) if name.startswith("rbd_control")
        for key, value in vars(module).items()
        if isinstance(value, Dispatcher) and value.__module__ == name
    }

def new(before):
    return sorted(name for name, count in kernels().items() if count > before.get(name, 0))
"""

CONTROLLER = """
rehearse_intake()
rehearse_controller(model)
before = kernels()
assert any(before.values())
for parameters in (
    ControllerParameters(),
    ControllerParameters(adaptive=True, tank_capacity=1.0, contact_reaction="retract"),
    ControllerParameters(friction_model="coulomb_viscous", torque_rate=(1.0,)),
):
    controller = PassivityController(model, parameters)
    controller.start(0.999, rest, zero)
    intake = JointStateIntake(model.joint_names)
    t = 1.0

    def go(samples=5):
        global t
        for _ in range(samples):
            sample = intake.accept(t, t, model.joint_names, rest, zero, zero)
            controller.update(t, sample.q, sample.v, t)
            controller.balance(sample.tau)
            t += 0.001

    def order(*seconds):
        points = [TrajectoryPoint(rest + 0.01 * s, time_from_start=s) for s in seconds]
        controller.set_trajectory(model.joint_names, points)

    go()
    order(0.5, 1.0)
    go()
    order(0.5)
    go()
    controller.hold()
    go()
    controller.resume()
    controller.touched(model.joint_links[-1], np.array([0.0, 0.0, 5.0]))
    controller.contact(True)
    go(600)
    controller.contact(False)
    controller.resume()
    controller.slow()
    order(0.5)
    go()
    controller.float_()
    go()
    controller.fault("test")
    go()
    controller.silence(t + 10.0)
print(*new(before))
"""

DETECTOR = """
parameters = DetectorParameters(tool_frame="tool")
rehearse_intake()
rehearse_detector(model, parameters)
before = kernels()
assert any(before.values())
intake = JointStateIntake(model.joint_names)
detector = ContactDetector(model, parameters)
t, phases = 1.0, []
quiet = weight + 0.01  # efforts of exactly zero are not measured
for effort in (quiet, weight + 30.0, quiet):
    for _ in range(1400):  # more than a second without contact, for the tare
        sample = intake.accept(t, t, model.joint_names, rest, zero, effort)
        detection = detector.update(sample.stamp, sample.q, sample.v, sample.tau)
        phases += [detection.event.phase] if detection.event else []
        assert detection.valid == (detector.tool_wrench() is not None)
        t += 0.001
    if not detection.contact:
        detector.tare()
assert phases == ["onset", "release"], phases
print(*new(before))
"""


@pytest.mark.parametrize("what", [CONTROLLER, DETECTOR], ids=["controller", "detector"])
def test_nothing_is_left_to_compile_or_load(what: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + what], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stdout.split()


def test_a_change_of_numbers_selects_no_other_code() -> None:
    """The rehearsal takes 20 ms, in which a controller in the same process sends no torque."""
    before = DetectorParameters(contact_threshold=(1.0,) * 7)
    for same in (
        {"contact_threshold": (2.0,) * 7},
        {"observer_gain": (40.0,)},
        {"onset_debounce": 0.01},
    ):
        assert not selects_other_code(before, replace(before, **same))
    for other in (
        {"contact_threshold": (0.0,)},
        {"observer": "kalman"},
        {"friction_model": "sigmoid"},
        {"tool_frame": "tool"},
    ):
        assert selects_other_code(before, replace(before, **other))
