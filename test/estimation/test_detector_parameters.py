"""Parameters of the contact detector: each changes the result, and wrong values are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from detector_bench import DT, PARAMETERS, Bench, Q, on_joint
from robots import urdf_path

from rbd_control.dynamics import (
    Model,
    gravity_torque,
)
from rbd_control.errors import ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters


@pytest.fixture(scope="module")
def model() -> Model:
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return Model.from_urdf(urdf_path("panda"), locked=locked)


CHANGES: list[dict[str, Any]] = [
    {"observer_gain": (20.0,)},
    {"observer": "second_order"},
    {"observer": "second_order", "observer_damping": 0.7},
    {"observer": "kalman"},
    {"observer": "kalman", "torque_noise": (0.5,)},
    {"observer": "kalman", "momentum_noise": (0.1,)},
    {"observer": "kalman", "torque_drift": (50.0,)},
    {"effort_kind": "torque_without_gravity"},
    {"effort_gain": (1.1,)},
    {"threshold_speed": (50.0,)},
    {"inertia_error": (5.0,)},
    {"effort_gain_error": (1.0,)},
    {"delay_error": 0.02},
    {"inertia_error": (5.0,), "covered_error": (1.0,)},
    {"moving_ratio": (0.1,)},
    {"moving_ratio": (0.1,), "reversal_speed": (3.0,)},
    {"residual_covariance": tuple(0.01 * np.eye(7).ravel())},
    {"residual_covariance": tuple(0.01 * np.eye(7).ravel()), "statistic_threshold": 20.0},
    {"residual_covariance": tuple(0.01 * np.eye(7).ravel()), "statistic_speed": 200.0},
    {"contact_force_threshold": 2.0},
    {"collision_force_threshold": 5.0},
    {"contact_force_threshold": 2.0, "force_link": "panda_link4"},
    {"saturation_ratio": 0.1},
    {"implausible_speed": 1.0},
    {"implausible_speed": 1.0, "implausible_jump": 0.0},
    {"implausible_effort": 1.0},
    {"default_velocity_limit": 0.5},
    {"default_effort_limit": 0.01},
    {"repeated_time": 0.05},
    {"repeated_time_at_rest": 0.05},
    {"contact_threshold": (4.0,)},
    {"collision_threshold": (4.5,)},
    {"release_ratio": 0.2},
    {"onset_debounce": 0.02},
    {"release_debounce": 0.3},
    {"settling_time": 0.28},
    {"maximum_gap": 0.0005},
    {"force_uncertainty": 1e-3},
    {"velocity_delay": 0.005},
    {"tool_frame": "panda_link7"},
    {"tool_frame": "panda_link7", "tool_wrench_prior_force": 1.0},
    {"tool_frame": "panda_link7", "tool_wrench_prior_moment": 0.1},
    {"friction_coulomb": (0.5,), "friction_model": "coulomb_viscous"},
    {"friction_model": "coulomb_viscous", "friction_offset": (-0.5,)},
    {"friction_model": "coulomb_viscous", "friction_coulomb": (0.5,)},
    {"friction_model": "coulomb_viscous", "friction_viscous": (5.0,)},
    {
        "friction_model": "coulomb_viscous",
        "friction_coulomb": (0.5,),
        "friction_velocity_scale": (1.0,),
    },
    {
        "friction_model": "coulomb_viscous",
        "friction_coulomb": (0.5,),
        "follow_friction": False,
    },
    {
        "friction_model": "stribeck",
        "friction_coulomb": (0.5,),
        "friction_stribeck": (0.2,),
    },
    {
        "friction_model": "stribeck",
        "friction_stribeck": (0.2,),
        "friction_stribeck_velocity": (0.02,),
    },
    {"friction_model": "sigmoid", "friction_f1": (1.0,)},
    {"friction_model": "sigmoid", "friction_f1": (1.0,), "friction_f2": (3.0,)},
    {"friction_model": "sigmoid", "friction_f1": (1.0,), "friction_f3": (0.5,)},
]
"""The last key of each is the parameter that must not be ignored."""


def test_every_parameter_is_among_them() -> None:
    tried = {list(change)[-1] for change in CHANGES}
    # What it changes is done by the node and by replay: test_effort_kind.py, test_replay.py.
    # What happens at rest takes seconds: test_rest_changes.py. Torque that changes within a period
    # and the rate: test_between_samples.py. Velocities from positions: test_velocity_filter.py.
    elsewhere = {"check_effort_kind", "rest_threshold", "calibrated_rate", "velocity_filter"}
    assert tried | elsewhere == {item.name for item in fields(DetectorParameters)}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: " ".join(change))
def test_no_parameter_is_ignored(model: Model, change: dict[str, Any]) -> None:
    """Against the same parameters without the last key, some output differs."""
    # Nobody filled in the limits of the last joint.
    limits = ("velocity_limit", "effort_limit")
    given: dict[str, Any] = {name: np.append(getattr(model, name)[:-1], 0.0) for name in limits}
    model = replace(model, **given)

    def outcome(parameters: DetectorParameters) -> list[tuple[Any, ...]]:
        bench = Bench(model, parameters)
        bench.v = np.full(7, 0.05)
        bench.jitter = 1e-9
        record = bench.run(0.3)
        bench.v = np.full(7, 0.1)
        record += bench.run(0.2, np.array([0.0, 5.0, 3.0, 2.0, 0.5, 1.0, 0.1]))
        tool = bench.detector.tool_wrench()
        record += bench.run(0.5)
        bench.jitter = 0.0
        record += bench.run(0.1)
        bench.v = np.zeros(7)
        record += bench.run(0.1)
        bench.v = np.full(7, 3.0)
        record += bench.run(0.002)
        bench.v = np.full(7, 0.1)
        # 20 N·m or so; the sixth joint has a limit of 12.
        record += bench.run(0.003, on_joint(5, -20.0))
        bench.q = Q + 0.05
        record += bench.run(0.003)
        return [
            (d.valid, d.level, d.link, tuple(d.residual), None if d.force is None else 1)
            for d in record
        ] + [() if tool is None else tuple(tool.wrench)]

    # Moving slowly on the spot is no motion of a real arm, but a fair input to compare on.
    without = dict(list(change.items())[:-1])
    assert outcome(replace(PARAMETERS, **change)) != outcome(replace(PARAMETERS, **without))


def test_matrices_follow_the_order_of_the_joints() -> None:
    robot = Robot.of(RobotParameters(urdf="arm7", joints=("joint_3", "joint_1")))
    given = DetectorParameters(residual_covariance=(3.0, 0.1, 0.1, 1.0))
    assert robot.in_model_order(given).residual_covariance == (1.0, 0.1, 0.1, 3.0)


def test_effort_is_what_it_is_declared_to_be(model: Model) -> None:
    """Currents and torques without gravity, in a motion: the same residuals as of torques."""
    rng = np.random.default_rng(8)
    t = DT * np.arange(1, 400)
    q, v = Q + 0.2 * np.sin(t[:, None]), 0.2 * np.cos(t[:, None]) * np.ones(7)
    tau = gravity_torque(model, q) + rng.normal(size=(399, 7))
    gain = np.array([20.0, -18.0, 15.0, 14.0, 5.0, -4.0, 4.0])
    usual = ContactDetector(model, PARAMETERS).update_block(t, q, v, tau).residual
    for effort, declared in (
        (tau / gain, {"effort_kind": "current", "effort_gain": tuple(gain)}),
        (tau - gravity_torque(model, q), {"effort_kind": "torque_without_gravity"}),
    ):
        detector = ContactDetector(model, replace(PARAMETERS, **declared))
        residual = detector.update_block(t, q, v, effort).residual
        np.testing.assert_allclose(residual, usual, atol=1e-11)


def test_parameters_change_without_a_restart(model: Model) -> None:
    bench = Bench(model)
    bias = on_joint(3, 0.5)
    bench.run(1.5, bias)
    bench.detector.tare()
    bench.run(0.2, bias + on_joint(1, 5.0))
    for change in ({"contact_threshold": (2.0,)}, {"observer": "second_order"}):
        bench.detector.set_parameters(replace(PARAMETERS, **change))
        # Still the same contact, with a verdict, and the tare still off.
        (detection,) = bench.run(DT, bias + on_joint(1, 5.0))
        assert detection.contact
        assert detection.valid
        np.testing.assert_allclose(detection.residual, on_joint(1, 5.0), atol=0.05)
    with pytest.raises(ParameterError, match="contact_threshold"):
        bench.detector.set_parameters(replace(PARAMETERS, contact_threshold=(1.0, 2.0)))
    assert bench.run(DT, bias + on_joint(1, 5.0))[-1].contact
    bench.run(1.0, bias)
    assert [e.phase for e in bench.events] == ["onset", "release"]
