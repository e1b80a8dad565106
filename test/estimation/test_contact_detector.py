"""Verdicts, events and validity of the contact detector, on a pendulum held at rest.

At rest the momentum is zero, so a torque missing from what gravity asks for is exactly an external
torque to the observer: residuals can be dictated.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from robots import urdf_path

from rbd_control.dynamics import (
    Model,
    dynamics_terms,
    frame_jacobian,
    gravity_torque,
    inverse_dynamics,
)
from rbd_control.errors import InputError, ParameterError
from rbd_control.estimation import ContactDetector, Detection, DetectorParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import arm7_urdf

DT = 0.001
Q = np.array([0.1, -0.4, 0.2, -1.8, 0.3, 1.7, 0.6])
PARAMETERS = DetectorParameters(
    contact_threshold=(1.0,), collision_threshold=(10.0,), observer_gain=(100.0,)
)


@pytest.fixture(scope="module")
def model() -> Model:
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return Model.from_urdf(urdf_path("panda"), locked=locked)


class Bench:
    """A detector and the time of its next sample."""

    def __init__(self, model: Model, parameters: DetectorParameters = PARAMETERS) -> None:
        self.detector = ContactDetector(model, parameters)
        self.g = gravity_torque(model, Q)
        self.q, self.v = Q, np.zeros(model.nv)
        self.t = 10.0
        self.jitter = 0.0
        self.events = []

    def run(
        self, duration: float, external: float | np.ndarray = 0.0, dt: float = DT
    ) -> list[Detection]:
        """Feed ``duration`` seconds under an external torque; the detections."""
        detections = []
        for _ in range(round(duration / dt)):
            self.t += dt
            self.jitter = -self.jitter  # so that moving samples do not look frozen
            tau = self.g - external + self.jitter
            detection = self.detector.update(self.t, self.q, self.v, tau)
            if detection.event:
                self.events.append(detection.event)
            detections.append(detection)
        return detections


def on_joint(index: int, torque: float) -> np.ndarray:
    external = np.zeros(7)
    external[index] = torque
    return external


def test_onset_and_release_of_a_push(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.5)
    start = bench.t
    touched = bench.run(0.3, on_joint(1, 5.0))
    end = bench.t
    bench.run(1.0)
    onset, release = bench.events
    assert (onset.phase, release.phase) == ("onset", "release")
    assert onset.id == release.id == 1
    assert onset.joint == release.joint == "panda_joint2"
    # A first-order filter reaches 1 of 5 N·m after -ln(0.8) / 100 = 2.2 ms; the debounce adds 2.
    assert 0.0 < onset.detected - start < 0.0055
    assert abs(onset.onset - start) <= DT + 1e-9
    assert release.level == "contact"
    assert release.peak_torque == pytest.approx(5.0, rel=1e-6)
    # From 5 to 0.7 N·m takes ln(5 / 0.7) / 100 = 20 ms, then the debounce of 150 ms.
    assert release.release - end == pytest.approx(0.020 + 0.150, abs=0.004)
    assert all(d.contact for d in touched[6:])


def test_collision_is_the_upper_level(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.3)
    assert bench.run(0.1, on_joint(2, 9.0))[-1].level == "contact"
    assert bench.run(0.1, on_joint(2, 30.0))[-1].level == "collision"
    bench.run(0.05, on_joint(2, 9.0))
    bench.run(0.5)
    assert [e.level for e in bench.events] == ["contact", "collision"]


def test_hysteresis_holds_one_event_together(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.3)
    bench.run(0.2, on_joint(0, 1.5))
    # Under the threshold but over 0.7 of it: still the same contact, however long.
    assert all(d.contact for d in bench.run(1.0, on_joint(0, 0.8)))
    bench.run(0.2, on_joint(0, 1.5))
    bench.run(0.5)
    assert [e.phase for e in bench.events] == ["onset", "release"]


def test_debounce_ignores_a_single_spike(model: Model) -> None:
    spike = replace(PARAMETERS, observer_gain=(2000.0,), onset_debounce=0.003)
    bench = Bench(model, spike)
    bench.run(0.3)
    bench.run(DT, on_joint(0, 3.0))
    bench.run(0.1)
    assert bench.events == []
    eager = Bench(model, replace(spike, onset_debounce=0.0))
    eager.run(0.3)
    eager.run(DT, on_joint(0, 3.0))
    assert len(eager.events) == 1


def test_not_valid_while_settling(model: Model) -> None:
    bench = Bench(model)
    detections = bench.run(0.2, on_joint(1, 5.0))
    invalid = [d for d in detections if not d.valid]
    assert len(invalid) == pytest.approx(PARAMETERS.settling_time / DT, abs=1)
    assert {d.reason for d in invalid} == {"settling"}
    assert not any(d.contact for d in invalid)
    assert detections[-1].valid
    assert detections[-1].contact


@pytest.mark.parametrize("missing", ["effort", "velocity"])
def test_missing_input_gives_no_verdict(model: Model, missing: str) -> None:
    bench = Bench(model)
    bench.run(0.5)
    v = None if missing == "velocity" else bench.v
    tau = None if missing == "effort" else bench.g
    detection = bench.detector.update(bench.t + DT, Q, v, tau)
    assert not detection.valid
    assert detection.reason == f"no {missing}"
    bench.t += DT
    assert not bench.run(0.05)[-1].valid
    assert bench.run(0.1)[-1].valid


def test_gap_restarts_and_closes_the_contact(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.3)
    bench.run(0.2, on_joint(1, 5.0))
    last = bench.t
    bench.t += PARAMETERS.maximum_gap
    first = bench.run(DT)[0]
    assert not first.valid
    assert "gap" in first.reason
    assert first.event.phase == "release"
    assert first.event.release == last
    assert np.all(first.residual == 0.0)


def test_short_gap_is_bridged(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.3)
    bench.t += 0.9 * PARAMETERS.maximum_gap
    assert bench.run(DT)[0].valid


def test_stamps_must_increase(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.01)
    for stamp in (bench.t, bench.t - 1.0):
        with pytest.raises(InputError, match="stamp"):
            bench.detector.update(stamp, Q, bench.v, bench.g)


def test_tare_takes_a_constant_error_off(model: Model) -> None:
    bench = Bench(model)
    bias = on_joint(3, 0.6)
    bench.run(3.0, bias)
    # The filter has risen to 1 - exp(-100 * 0.1) when the mean begins, and the mean lasts a second.
    np.testing.assert_allclose(bench.detector.tare(), bias, atol=1e-5)
    after = bench.run(0.5, bias)
    np.testing.assert_allclose(after[-1].residual, 0.0, atol=1e-5)


@pytest.mark.parametrize("observer", ["momentum", "second_order", "kalman"])
def test_a_tare_leaves_little_in_noise(model: Model, observer: str) -> None:
    """[60] It succeeds only with what has been averaged for a second, at whatever time it comes."""
    bias, rng = on_joint(3, 0.9) + on_joint(1, 5.0), np.random.default_rng(4)
    parameters = replace(
        PARAMETERS, observer=observer, contact_threshold=(10.0,), collision_threshold=(40.0,)
    )
    for wait in (0.02, 0.15, 0.5, 1.0, 1.3, 4.0):
        bench = Bench(model, parameters)

        def run(duration: float, bench: Bench = bench) -> list[Detection]:
            return [
                bench.run(DT, bias + rng.normal(0.0, 0.5, 7)) for _ in range(round(duration / DT))
            ]

        run(wait)
        if wait < 1.1:  # a second after the settling time
            left = r"try again in [01]\.\d\d s" if wait > PARAMETERS.settling_time else "settling"
            with pytest.raises(InputError, match=f"cannot tare: .*{left}"):
                bench.detector.tare()
            assert not bench.detector.bias.any()
            continue
        # The mean of a second of 0.5 N·m of white noise is known to 0.5 / sqrt(1000) = 0.016 N·m;
        # 0.05 is three times that, and 1 % of the bias.
        np.testing.assert_allclose(bench.detector.tare(), bias, atol=0.05)
        with pytest.raises(InputError, match="averaged for 0.00 s"):
            bench.detector.tare()


def test_a_tare_wants_a_second_after_every_change(model: Model) -> None:
    bench = Bench(model)
    bench.run(2.0)
    bench.detector.set_parameters(replace(PARAMETERS, observer_gain=(50.0,)))
    with pytest.raises(InputError, match="averaged for 0.00 s"):
        bench.detector.tare()
    bench.run(1.01)
    bench.detector.set_model(model)
    with pytest.raises(InputError, match="averaged for 0.00 s"):
        bench.detector.tare()
    bench.run(0.2, on_joint(1, 5.0))
    with pytest.raises(InputError, match="while there is contact"):
        bench.detector.tare()
    bench.run(0.9)
    with pytest.raises(InputError, match=r"averaged for 0\.[67]"):  # since the release
        bench.detector.tare()
    bench.run(0.5)
    bench.run(0.2, on_joint(2, 0.9))
    with pytest.raises(InputError, match="residual of panda_joint3 still changes"):
        bench.detector.tare()
    bench.run(3.0, on_joint(2, 0.9))
    # Of the change, exp(-3) is left in the mean.
    assert bench.detector.tare()[2] == pytest.approx(0.9, rel=0.06)


def test_reset_starts_again(model: Model) -> None:
    bench = Bench(model)
    bench.run(0.3, on_joint(1, 5.0))
    release = bench.detector.reset()
    assert (release.phase, release.id) == ("release", bench.events[-1].id)
    assert release.release == pytest.approx(bench.t)
    assert bench.detector.reset() is None
    bench.t -= 5.0
    assert not bench.run(0.05)[-1].valid


def test_onset_is_found_at_30_hz(model: Model) -> None:
    bench = Bench(model)
    bench.run(2.0, dt=1 / 30)
    start = bench.t
    bench.run(0.5, on_joint(1, 5.0), dt=1 / 30)
    (onset,) = bench.events
    assert onset.detected - start == pytest.approx(1 / 30)
    assert abs(onset.onset - start) < 1 / 30 + 1e-9


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
    {"threshold_acceleration": (50.0,)},
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
    elsewhere = {"check_effort_kind"}
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


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"observer_gain": (0.0,)}, "observer_gain"),
        ({"contact_threshold": (np.nan,)}, "contact_threshold"),
        ({"contact_threshold": (30.0,), "collision_threshold": (20.0,)}, "collision_threshold"),
        ({"friction_model": "lugre"}, "friction_model"),
        ({"release_ratio": 1.5}, "release_ratio"),
        (
            {"contact_force_threshold": 9.0, "collision_force_threshold": 8.0},
            "collision_force_threshold is 8.0 but contact_force_threshold is 9.0",
        ),
        ({"effort_gain": (1.0, 0.0)}, r"effort_gain\[1\] is 0"),
        ({"residual_covariance": (1.0, 0.0)}, "residual_covariance"),
        ({"residual_covariance": (1.0, 0.2, 0.0, 1.0)}, "not symmetric"),
        ({"residual_covariance": (1.0, 2.0, 2.0, 1.0)}, "not positive definite"),
        ({"contact_threshold": ()}, "contact_threshold"),
        ({"onset_debounce": "soon"}, "onset_debounce"),
    ],
)
def test_bad_parameters_are_named(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        DetectorParameters(**values)


def test_correlated_noise_is_told_from_contact(model: Model) -> None:
    """Two joints whose residuals rise together by noise: one rising alone is contact."""
    covariance = 0.01 * np.eye(7)
    covariance[0, 1] = covariance[1, 0] = 0.0099
    together = replace(
        PARAMETERS,
        contact_threshold=(5.0,),
        residual_covariance=tuple(covariance.ravel()),
        statistic_threshold=8.0,
    )
    both = on_joint(0, 0.5) + on_joint(1, 0.5)
    # r = 0.5 N·m of 0.1: five standard deviations together, and 0.5 / sqrt(0.0002) = 35 alone.
    for external, contact in ((both, False), (on_joint(0, 0.5), True)):
        bench = Bench(model, together)
        bench.run(0.3)
        assert bench.run(0.1, external)[-1].contact == contact
        assert not bench.run(0.3)[-1].contact


@pytest.mark.parametrize("moves", [False, True], ids=["stands", "is fast"])
def test_what_thresholds_leave_room_for_rules_no_link_out(model: Model, moves: bool) -> None:
    """A joint beyond the touched link that stands, or is fast, may show something of its own."""
    known: dict[str, Any] = {
        "contact_threshold": (5.0,),
        "residual_covariance": tuple((1e-4 * np.eye(7)).ravel()),
        "statistic_threshold": 1e6,
    }
    allowed: dict[str, Any] = {"threshold_speed": (5.0,)} if moves else {"moving_ratio": (0.1,)}
    force = np.array([30.0, -20.0, 25.0])
    external = frame_jacobian(model, Q, "panda_link4")[3:].T @ force
    external[4] += 0.5
    named = []
    for parameters in (known, known | allowed):
        bench = Bench(model, DetectorParameters(**parameters))
        if moves:
            bench.v[4], bench.jitter = 1.0, 1e-9
            # Positions stay, so momentum does: 0 = tau - g + Cᵀv.
            _, _, CTv, g = dynamics_terms(model, Q, bench.v)
            bench.g = g - CTv
        bench.run(0.5)
        bench.run(0.3, external)
        bench.run(0.5)  # the last word is told with the release
        named.append("panda_link4" in bench.events[-1].candidates)
    assert named == [False, True]


def test_wrong_length_is_named(model: Model) -> None:
    parameters = replace(PARAMETERS, contact_threshold=(1.0, 2.0))
    with pytest.raises(ParameterError, match="contact_threshold has 2 values .* 7 joints"):
        ContactDetector(model, parameters)
    parameters = replace(PARAMETERS, residual_covariance=(1.0, 0.0, 0.0, 1.0))
    with pytest.raises(ParameterError, match="residual_covariance has 4 values .* 7 joints"):
        ContactDetector(model, parameters)


def test_matrices_follow_the_order_of_the_joints() -> None:
    robot = Robot.of(RobotParameters(urdf="arm7", joints=("joint_3", "joint_1")))
    given = DetectorParameters(residual_covariance=(3.0, 0.1, 0.1, 1.0))
    assert robot.in_model_order(given).residual_covariance == (1.0, 0.1, 0.1, 3.0)


def test_frozen_data_gives_no_verdict(model: Model) -> None:
    """Bit-identical samples under advancing stamps: soon with a velocity, later without."""
    bench = Bench(model)
    bench.jitter = 1e-9
    bench.run(0.3)
    bench.run(0.2, on_joint(1, 5.0))
    bench.jitter = 0.0
    alive = bench.t
    frozen = bench.run(6.0, on_joint(1, 5.0))
    assert frozen[-1].reason == "repeated samples"
    at = next(d.stamp for d in frozen if not d.valid)
    assert at - alive == pytest.approx(PARAMETERS.repeated_time_at_rest, abs=2 * DT)
    release = bench.events[-1]
    assert (release.phase, release.release) == ("release", pytest.approx(alive, abs=2 * DT))
    bench.v = np.full(7, 1e-3)
    bench.jitter = 1e-9
    again = bench.run(0.3)
    assert again[0].reason == "settling"
    assert again[-1].valid
    bench.jitter = 0.0
    moving = bench.run(0.5)
    at = next(d.stamp for d in moving if not d.valid)
    assert at - moving[0].stamp == pytest.approx(PARAMETERS.repeated_time, abs=2 * DT)


def test_saturated_effort_is_no_proof_of_no_contact(model: Model) -> None:
    limit = 0.9 * float(np.abs(gravity_torque(model, Q) / model.effort_limit).max())
    bench = Bench(model, replace(PARAMETERS, saturation_ratio=limit))
    assert {d.reason for d in bench.run(0.5)[200:]} == {"saturated effort"}
    # Contact is believed all the same, and not taken for ended.
    touched = bench.run(0.2, on_joint(5, 5.0))
    assert touched[-1].contact
    assert touched[-1].valid
    assert bench.run(1.0)[-1].contact
    bench.detector.set_parameters(PARAMETERS)
    assert not bench.run(1.0)[-1].contact
    assert [e.phase for e in bench.events] == ["onset", "release"]


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


def test_a_payload_at_run_time_does_not_jump(model: Model) -> None:
    """Grasped in motion: the detector goes on where it stood, with the new weight."""
    loaded = model.with_payload("panda_link7", 1.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    t = DT * np.arange(1, 1201)[:, None]
    w = 0.7 * np.arange(1, 8)
    q, v, a = Q + 0.3 * np.sin(w * t), 0.3 * w * np.cos(w * t), -0.3 * w**2 * np.sin(w * t)
    tau = inverse_dynamics(model, q, v, a)
    tau[600:] = inverse_dynamics(loaded, q[600:], v[600:], a[600:])
    detector = ContactDetector(model, PARAMETERS)
    first = detector.update_block(t[:600, 0], q[:600], v[:600], tau[:600])
    detector.set_model(loaded)
    second = detector.update_block(t[600:, 0], q[600:], v[600:], tau[600:])
    assert second.valid.all()
    # One interval in which the old weight was carried half the time: 7 N·m through K dt / 2.
    assert np.abs(second.residual - first.residual[-1]).max() < 0.5
    np.testing.assert_allclose(second.residual[-1], 0.0, atol=1e-2)
    untold = ContactDetector(model, PARAMETERS).update_block(t[:, 0], q, v, tau)
    assert np.abs(untold.residual).max() > 5.0


def test_set_model_refuses_another_arm(model: Model) -> None:
    with pytest.raises(InputError, match="joint_1"):
        ContactDetector(model, PARAMETERS).set_model(Model.from_urdf(arm7_urdf()))


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


@pytest.mark.parametrize(("link", "level"), [("panda_link7", "collision"), ("panda_link4", "none")])
def test_force_at_a_link_is_judged(model: Model, link: str, level: str) -> None:
    """20 N at link 7, with joint thresholds far above what it does to any joint."""
    force = frame_jacobian(model, Q, "panda_link7")[3:].T @ [12.0, 0.0, 16.0]
    parameters = replace(
        PARAMETERS,
        contact_threshold=(60.0,),
        collision_threshold=(80.0,),
        contact_force_threshold=15.0,
        collision_force_threshold=18.0,
        force_link=link,
        force_uncertainty=1e4,
    )
    bench = Bench(model, parameters)
    bench.run(0.3)
    assert bench.run(0.3, force)[-1].level == level
