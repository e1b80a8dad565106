"""After its rehearsal a node neither compiles nor loads code: an arm would wait for its torque."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own, where no other test has called anything yet.
PRELUDE = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from rbd_control.control import *
from rbd_control.estimation import *
from rbd_control.identification import *
from rbd_control.joint_states import JointStateIntake
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf
from rbd_control.startup.compilation import *

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
            controller.energy.balance(sample.tau)
            t += 0.001

    def order(*seconds):
        points = [TrajectoryPoint(rest + 0.01 * s, time_from_start=s) for s in seconds]
        controller.set_trajectory(model.joint_names, points)

    go()
    order(0.5, 1.0)
    go()
    order(0.5)
    go()
    controller.modes.order("hold")
    go()
    controller.resume()
    controller.set_contact_force(model.joint_links[-1], np.array([0.0, 0.0, 5.0]))
    controller.contact(True)
    go(600)
    controller.contact(False)
    controller.resume()
    controller.modes.order("slow")
    order(0.5)
    go()
    controller.modes.order("float")
    go()
    controller.modes.fault("test")
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


# Changes of parameters while the detector runs, one after the other.
CHANGES = """
from dataclasses import replace

rehearse_detector(model, DetectorParameters())
before = kernels()
friction = dict(friction_coulomb=(0.1,), friction_viscous=(0.1,))
t, onsets = 1.0, 0
detector = ContactDetector(model, DetectorParameters())
for change in (
    dict(observer="kalman"),
    dict(observer="second_order"),
    dict(velocity_delay=0.002),
    dict(friction_model="coulomb_viscous", **friction),
    dict(friction_model="sigmoid"),
    dict(effort_kind="current", effort_gain=(2.0,)),
    dict(effort_kind="torque_without_gravity"),
    dict(contact_force_threshold=10.0, force_link="link_5"),
    dict(residual_covariance=tuple(np.eye(7).ravel()), statistic_speed=1.0),
    dict(threshold_speed=(1.0,), inertia_error=(0.1,), delay_error=0.001, moving_ratio=(0.5,)),
    dict(contact_threshold=(0.0,), reversal_speed=(0.0,), onset_debounce=0.0, settling_time=0.0),
):
    parameters = replace(DetectorParameters(contact_threshold=(2.0,)), **change)
    detector.set_parameters(parameters)
    detector.set_model(model.with_payload("link_7", 0.5, np.zeros(3), np.zeros((3, 3))))
    detector.set_model(model)
    watch, judge = MotionWatch(0.2), EffortKindJudge(model, parameters)
    unit = 2.0 if parameters.effort_kind == "current" else 1.0
    free = 0.01 + (0.0 if "without" in parameters.effort_kind else 1.0) * weight
    for k in range(900):
        effort = (free + (30.0 if 300 <= k < 500 else 0.0)) / unit
        detection = detector.update(t, rest, zero, effort)
        onsets += bool(detection.event) and detection.event.phase == "onset"
        watch.add(t, rest, zero, effort)
        judge.add(t, rest, zero, effort)
        t += 0.001
    watch.remarks(detector)
assert onsets == 11, onsets
print(*new(before))
"""

# The check of the first seconds is computed while the detector judges samples.
CHECK = """
from rbd_control.check.live import StartCheck
from rbd_control.dynamics import inverse_dynamics

parameters = DetectorParameters(
    contact_threshold=(5.0,), residual_covariance=tuple(np.eye(7).ravel()), statistic_threshold=4.0
)
w = np.linspace(2.0, 3.0, 7)
motion = []
for t in 0.01 * np.arange(600):
    q, v, a = 0.4 * np.sin(w * t), 0.4 * w * np.cos(w * t), -0.4 * w**2 * np.sin(w * t)
    motion.append((t, q, v, inverse_dynamics(model, q, v, a)))
rehearse_detector(model, parameters)
before = kernels()
assert any(before.values())
check = StartCheck(model, parameters, 5.0)
for sample in motion:
    check.add(*sample)
assert check.is_full
for _ in check.in_slices():
    pass
assert "weakest push" in {line.topic for line in check.lines}, check.lines
print(*new(before))
"""


@pytest.mark.parametrize(
    "what",
    [CONTROLLER, DETECTOR, CHANGES, CHECK],
    ids=["controller", "detector", "changes", "check"],
)
def test_nothing_is_left_to_compile_or_load(what: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + what], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stdout.split()
