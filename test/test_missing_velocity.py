"""A velocity that is NaN counts as missing: no verdict, the safe torque, and no NaN in a result."""

from __future__ import annotations

import numpy as np
import pytest

from rbd_control.control import ControllerParameters, PassivityController
from rbd_control.dynamics import inverse_dynamics
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.joint_states import JointSample, JointStateIntake
from rbd_control.robot import Robot

MODEL = Robot.load("arm7").model
PERIOD = 0.002


def motion() -> list[JointSample]:
    """Return samples of a swing; some messages have no velocity of one joint, or of none.

    A joint that the model does not have sends NaN in every message.
    """
    intake = JointStateIntake(MODEL.joint_names)
    names = (*MODEL.joint_names, "finger")
    result = []
    for k in range(1, 300):
        t = k * PERIOD
        q = np.linspace(0.3, 0.9, MODEL.nv) + 0.1 * np.sin(t)
        v, a = np.full(MODEL.nv, 0.1 * np.cos(t)), np.full(MODEL.nv, -0.1 * np.sin(t))
        tau = inverse_dynamics(MODEL, q, v, a)
        if k == 200 or 250 <= k < 260:
            v[k % MODEL.nv] = np.nan
        if k == 220:
            v[:] = np.nan
        fields = (np.append(x, np.nan) for x in (q, v, tau))
        sample = intake.accept(1.0 + t, 1.0 + t, names, *fields)
        assert sample is not None
        assert (sample.v is None) == bool(np.isnan(v).any())
        result.append(sample)
    return result


@pytest.mark.parametrize("observer", ["kalman"])
def test_the_detector_has_no_verdict_and_no_nan(observer: str) -> None:
    parameters = DetectorParameters(observer=observer, tool_frame=MODEL.link_names[-1])
    detector = ContactDetector(MODEL, parameters)
    valid = 0
    for sample in motion():
        found = detector.update(sample.stamp, sample.q, sample.v, sample.tau)
        valid += found.valid
        assert not (found.valid and sample.v is None)
        assert found.reason or sample.v is not None
        assert np.isfinite(found.residual).all()
        if found.valid:
            tool = detector.tool_wrench()
            assert tool is not None
            assert np.isfinite(tool.wrench).all()
            assert np.isfinite(tool.covariance).all()
    assert valid > 100


def test_the_controller_ends_in_the_safe_torque_without_nan() -> None:
    controller = PassivityController(MODEL, ControllerParameters())
    samples = motion()
    first = samples[0]
    controller.start(first.stamp, first.q, np.zeros(MODEL.nv), first.stamp)
    for sample in samples:
        command = controller.update(sample.stamp, sample.q, sample.v, sample.stamp, sample.tau)
        for values in (command.torque, command.q_d, command.v_d):
            assert np.isfinite(values).all()
    assert command.mode == "safe"
