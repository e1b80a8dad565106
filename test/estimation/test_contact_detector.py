"""Verdicts, events and validity of the contact detector, also when it is changed while it runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from detector_bench import DT, PARAMETERS, Bench, Q, on_joint
from robots import urdf_path

from rbd_control.dynamics import (
    Model,
    dynamics_terms,
    frame_jacobian,
    gravity_torque,
    inverse_dynamics,
)
from rbd_control.errors import InputError
from rbd_control.estimation import ContactDetector, Detection
from rbd_control.estimation.validity import IN_MOTION
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return Model.from_urdf(urdf_path("panda"), locked=locked)


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


def test_thresholds_fall_no_faster_than_the_residual_after_a_stop(model: Model) -> None:
    """The residual still holds the error of the motion, which decays as exp(-K t)."""
    parameters = replace(PARAMETERS, contact_threshold=(5.0,), threshold_speed=(2.0,))
    t = DT * np.arange(1, 801)
    v = np.outer(np.arange(800) < 700, 0.5 * np.ones(7))
    q = Q + np.cumsum(v, axis=0) * DT
    tau = gravity_torque(model, q) + 0.1  # an effort of exactly zero would not be measured
    found = ContactDetector(model, parameters).update_block(t, q, v, tau)
    assert found.valid[700:].all()
    after = t[700:] - t[699]
    least = 5.0 + 2.0 * 0.5 * np.exp(-100.0 * after)
    assert (found.threshold[700:] >= least[:, None] - 1e-9).all()


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


@pytest.mark.parametrize("missing", ["effort", "velocity"])
def test_missing_input_gives_no_verdict(model: Model, missing: str) -> None:
    """A source without it never gets a verdict; where it ends, the verdict ends with it."""
    bench = Bench(model)
    v = None if missing == "velocity" else bench.v
    tau = None if missing == "effort" else bench.g

    def lacking(count: int) -> list[Detection]:
        times = bench.t + DT * np.arange(1, count + 1)
        bench.t = times[-1]
        return [bench.detector.update(t, Q, v, tau) for t in times]

    assert {d.reason for d in lacking(300)} == {f"no {missing}"}
    bench.run(0.5)
    bench.run(0.2, on_joint(1, 5.0))
    last = bench.t
    detections = lacking(3)
    assert [d.contact for d in detections] == [True, True, False]
    assert [d.valid for d in detections] == [True, True, False]
    assert detections[-1].reason == f"no {missing}"
    assert detections[-1].event.release == last
    assert {d.dropped for d in detections} == {f"no {missing}"}
    bench.t += PARAMETERS.maximum_gap
    assert not lacking(1)[0].valid, "a single one, too late"
    assert not bench.run(0.05)[-1].valid, "settling"
    assert bench.run(0.1)[-1].valid


@pytest.mark.parametrize("missing", ["effort", "velocity"])
def test_missing_input_costs_what_a_lost_message_costs(model: Model, missing: str) -> None:
    """One sample in a hundred at 1 kHz, in blocks of several and one by one."""
    rng = np.random.default_rng(4)
    t = 10.0 + 0.001 * np.arange(4000)
    q = Q + 0.2 * np.sin(t - t[0])[:, None]
    v = np.broadcast_to(0.2 * np.cos(t - t[0])[:, None], q.shape).copy()
    tau = inverse_dynamics(model, q, v, -0.2 * np.sin(t - t[0])[:, None] * np.ones(7))
    tau += 0.02 * rng.standard_normal(tau.shape)
    tau[2500:3000, 1] -= 30.0
    lacks = rng.random(t.size) < 0.01
    lacks[[0, 2501]] = True, True
    whole, single, blocks = (ContactDetector(model, PARAMETERS) for _ in range(3))
    expected = [
        whole.update(*row) for row in zip(t, q, v, tau, strict=True) if not lacks[row[0] == t][0]
    ]
    found = []
    for k in range(t.size):
        given = [
            None if lacks[k] and name == missing else x[k]
            for name, x in (("velocity", v), ("effort", tau))
        ]
        found.append(single.update(t[k], q[k], *given))
    kept = [d for d, lack in zip(found, lacks, strict=True) if not lack]
    for field in ("valid", "contact", "residual", "link", "force", "reason"):
        for ours, theirs in zip(kept, expected, strict=True):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    edges = np.flatnonzero(np.diff(lacks, prepend=~lacks[0], append=~lacks[-1]))
    parts = []
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        given = [
            None if lacks[a] and name == missing else x[a:b]
            for name, x in (("velocity", v), ("effort", tau))
        ]
        parts.append(blocks.update_block(t[a:b], q[a:b], *given))
    np.testing.assert_array_equal(
        np.concatenate([p.residual for p in parts]), [d.residual for d in found]
    )
    np.testing.assert_array_equal(
        np.concatenate([p.contact for p in parts]), [d.contact for d in found]
    )
    np.testing.assert_array_equal(np.concatenate([p.dropped for p in parts]) != 0, lacks)
    assert all(d.valid for d in found[200:])
    assert {d.dropped for d in found} == {"", f"no {missing}"}
    (onset,) = [d.event for d in found if d.event and d.event.is_onset]
    assert 0.0 <= onset.detected - t[2500] < 0.006


def push(model: Model, force: float) -> np.ndarray:
    """External joint torques of a force on the last link, (7,) [N·m]."""
    jacobian = frame_jacobian(model, Q, "panda_link7")[3:]
    return np.asarray(jacobian.T @ np.array([0.6, 0.48, -0.64])) * force


@pytest.mark.parametrize("rate", [1000.0, 4000.0])
def test_the_onset_of_a_slow_observer_is_not_cut_off(model: Model, rate: float) -> None:
    """A push that takes 1.5 time constants of 0.2 s to be found: more than any fixed window."""
    slow = replace(PARAMETERS, observer_gain=(5.0,), settling_time=1.0)
    bench = Bench(model, slow)
    rng = np.random.default_rng(8)

    def run(duration: float, external: np.ndarray) -> None:
        for _ in range(round(duration * rate)):
            bench.run(1.0 / rate, external + 0.05 * rng.standard_normal(7), dt=1.0 / rate)

    run(2.5, np.zeros(7))
    start = bench.t
    run(0.6, push(model, 1.25 / np.abs(push(model, 1.0)).max()))
    (onset,) = bench.events
    assert onset.detected - start > 0.25
    # The search takes at most 128 samples of 0.9 s, which are 8 ms apart.
    assert abs(onset.onset - start) < 0.02
    assert onset.onset_uncertainty < 0.02


def test_a_force_that_has_not_settled_says_so(model: Model) -> None:
    bench = Bench(model, replace(PARAMETERS, observer_gain=(25.0,), collision_threshold=(100.0,)))
    bench.run(0.5)
    start, constant = bench.t, 0.04
    rising = bench.run(0.3, push(model, 30.0))
    (onset,) = bench.events
    assert not onset.force_settled
    settled = [d.force_settled for d in rising]
    first = settled.index(True)
    # A step reaches 89 % after 2.2 time constants, and the residual then changes by a fifth in one.
    assert rising[first].stamp - start == pytest.approx(2.2 * constant, abs=0.3 * constant)
    assert all(settled[first:])
    for detection in rising[first:]:  # 89 % at first, in the joint of the largest torque
        assert np.abs(detection.residual).max() > 0.85 * np.abs(push(model, 30.0)).max()
    harder = bench.run(0.3, push(model, 90.0))
    assert [d.force_settled for d in harder[10:50]] == [False] * 40, "it rises again"
    assert harder[-1].force_settled
    bench.run(0.5)
    release = bench.events[-1]
    assert release.force_settled
    assert release.force_text == f"{release.force_magnitude:.1f} N"
    bench.run(0.03, push(model, 90.0))  # shorter than the time constant
    bench.run(0.5)
    release = bench.events[-1]
    assert release.force_magnitude < 85.0
    assert release.force_text == f"at least {release.force_magnitude:.1f} N"


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


def test_an_arm_that_seems_to_stand_is_judged_by_its_efforts(model: Model) -> None:
    """Coarse encoders repeat position and velocity, at rest and in slow motion; efforts do not."""
    for speed in (0.0, 0.9 * IN_MOTION):
        bench = Bench(model)
        bench.v = np.full(7, speed)
        _, _, CTv, g = dynamics_terms(model, Q, bench.v)
        bench.g = g - CTv
        rng = np.random.default_rng(5)
        pushed = False
        for k in range(1500):
            noise = rng.normal(0.0, 0.01, 7)
            (detection,) = bench.run(DT, on_joint(1, 5.0 if k >= 1000 else 0.0) + noise)
            assert detection.valid or k < 300, detection.reason
            pushed = pushed or (k < 1000 and detection.contact)
        assert not pushed
        assert bench.events[-1].onset == pytest.approx(11.0, abs=0.02)  # the push, less the search


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


def test_a_saturated_effort_is_doubtful_without_settling_time_too(model: Model) -> None:
    limit = 0.9 * float(np.abs(gravity_torque(model, Q) / model.effort_limit).max())
    bench = Bench(model, replace(PARAMETERS, saturation_ratio=limit, settling_time=0.0))
    assert {d.reason for d in bench.run(0.5)[200:]} == {"saturated effort"}


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


def test_release_describes_the_stronger_of_two_pushes(model: Model) -> None:
    """A hand pushes two links without letting go: link and force are those of one push."""
    strong, weak = np.array([20.0, -15.0, 25.0]), np.array([-20.0, 25.0, -20.0])
    on = {row: frame_jacobian(model, Q, f"panda_link{row}")[3:].T for row in (3, 8)}
    pushes = [on[8] @ strong, on[3] @ weak]
    bench = Bench(model, replace(PARAMETERS, collision_threshold=(50.0,)))
    bench.run(0.3)
    for external in pushes:
        assert bench.run(0.5, external)[-1].contact
    bench.run(0.5)
    _, release = bench.events
    assert release.phase == "release"
    assert release.link in ("panda_link6", "panda_link7")
    assert np.linalg.norm(release.force - strong) < 0.2 * np.linalg.norm(strong)


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


def test_a_dropped_effort_does_not_make_zero_efforts_measured() -> None:
    """An arm without efforts got the verdict "no contact" for five seconds."""
    model = Model.from_urdf(arm7_urdf())
    parameters = replace(PARAMETERS, effort_kind="torque_without_gravity")
    detector = ContactDetector(model, parameters)
    rest, tau = np.zeros(7), np.zeros(7)
    for k in range(3000):
        tau[1] = 1e30 if k == 1000 else 0.0
        found = detector.update(0.001 * k, 0.3 * np.ones(7), rest, tau)
        assert not found.valid or k < 100, k


def test_a_gap_does_not_make_identical_samples_new(model: Model) -> None:
    """With one lost sample every few seconds, a dead driver got "no contact" for ever."""
    detector, tau = ContactDetector(model, PARAMETERS), gravity_torque(model, Q)
    stamp, found = 0.0, None
    for k in range(9000):
        stamp += 0.15 if k % 4000 == 3999 else 0.001
        found = detector.update(stamp, Q, np.zeros(7), tau)
    assert found is not None
    assert not found.valid
    assert "repeated" in found.reason


def test_a_floating_and_a_fixed_base_are_told_apart() -> None:
    fixed = Model.from_urdf(arm7_urdf())
    with pytest.raises(InputError, match="floating base"):
        ContactDetector(fixed, PARAMETERS).set_model(
            Model.from_urdf(arm7_urdf(), floating_base=True)
        )


def test_a_force_link_that_no_joint_moves_is_refused(model: Model) -> None:
    """Its force was zero for ever, so the detector never reported contact."""
    for link, why in (("panda_link0", "fixed to the world"), ("nothing", "no link")):
        with pytest.raises(InputError, match=f"force_link: .*{why}"):
            ContactDetector(model, replace(PARAMETERS, force_link=link))
