"""Implausible samples are dropped like lost messages; if they persist, there is no verdict."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import InputError
from rbd_control.estimation import ContactDetector, Detection, DetectorParameters

DT = 0.001
COUNT = 1200
PARAMETERS = DetectorParameters(contact_threshold=(2.0,), collision_threshold=(20.0,))


@pytest.fixture(scope="module")
def recording(model: Model) -> tuple[np.ndarray, ...]:
    """Return a motion without contact, in noise: t (k,), q, v and tau (k, 7)."""
    return moving(model)


def moving(model: Model) -> tuple[np.ndarray, ...]:
    t = 10.0 + DT * np.arange(COUNT)
    w = np.arange(1, 8) * 0.9
    s = (t - t[0])[:, None]
    rest = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
    q, v = rest + 0.2 * np.sin(w * s), 0.2 * w * np.cos(w * s)
    tau = inverse_dynamics(model, q, v, -0.2 * w**2 * np.sin(w * s))
    return t, q, v, tau + np.random.default_rng(3).normal(0.0, 0.02, tau.shape)


def detect(
    model: Model, recording: Sequence[np.ndarray], parameters: DetectorParameters = PARAMETERS
) -> list[Detection]:
    detector = ContactDetector(model, parameters)
    return [detector.update(*sample) for sample in zip(*recording, strict=True)]


def changed(
    recording: Sequence[np.ndarray],
    column: int,
    rows: int | slice,
    joint: int,
    value: float | np.ndarray,
) -> list[np.ndarray]:
    """Return the recording with another value in one column (1 q, 2 v, 3 tau)."""
    columns = [x.copy() for x in recording]
    columns[column][rows, joint] = value
    return columns


def is_clean(detections: list[Detection]) -> bool:
    return not any(d.contact or d.event for d in detections)


ABSURD = {
    "effort 1e30": (3, 1e30, "implausible effort on joint_2"),
    "effort 500 of 180": (3, 500.0, "implausible effort on joint_2"),
    "zero where weight is carried": (3, 0.0, "joint_2 publishes no effort"),
    "30 rad/s": (2, 30.0, "implausible speed on joint_2"),
    "a jump": (1, 1.2, "implausible jump on joint_2"),
    "1e30 rad": (1, 1e30, "implausible position on joint_2"),
}


@pytest.mark.parametrize("absurd", ABSURD.values(), ids=ABSURD.keys())
def test_one_absurd_sample_is_a_lost_message(
    model: Model, recording: Sequence[np.ndarray], absurd: tuple[int, float, str]
) -> None:
    """No flag, no event, and the residual after it is the one without the sample."""
    column, value, says = absurd
    at = 700
    detections = detect(model, changed(recording, column, at, 1, value))
    without = detect(model, [np.delete(x, at, axis=0) for x in recording])
    assert is_clean(detections)
    assert all(d.valid for d in detections[at - 10 :])
    assert [d.dropped for d in detections if d.dropped] == [says]
    assert detections[at].dropped == says
    np.testing.assert_array_equal(detections[at].residual, detections[at - 1].residual)
    after = [d.residual for d in detections[:at] + detections[at + 1 :]]
    np.testing.assert_array_equal(after, [d.residual for d in without])


@pytest.mark.parametrize(
    "absurd", [x for x in ABSURD.values() if "jump" not in x[2]], ids=lambda x: f"{x[1]:g} {x[2]}"
)
def test_persistent_failures_give_no_verdict(
    model: Model, recording: Sequence[np.ndarray], absurd: tuple[int, float, str]
) -> None:
    """Two samples are bridged, the third is not; afterwards all is well again."""
    column, value, says = absurd
    for first, last in ((700, 760), (700, 900), (0, 500)):
        detections = detect(model, changed(recording, column, slice(first, last), 1, value))
        assert is_clean(detections)
        assert all(d.dropped == says for d in detections[first:last])
        assert [d.reason for d in detections[first + 2 : last]] == [says] * (last - first - 2)
        assert not any(d.valid for d in detections[first + 2 : last])
        # Gaps of up to 0.1 s are bridged; after longer ones the observer settles anew.
        bridged = last - first < 100 and first > 0
        assert detections[last].valid == bridged
        assert detections[last].reason == ("" if bridged else "gap" if first else "settling")
        assert detections[last + 110].valid
        assert all(np.isfinite(d.residual).all() for d in detections)


def test_a_new_place_is_accepted(model: Model, recording: Sequence[np.ndarray]) -> None:
    """An encoder that was set anew: the third sample there is believed, and the observer starts."""
    detections = detect(
        model, changed(recording, 1, slice(700, None), 0, recording[1][700:, 0] + 2)
    )
    assert [d.reason for d in detections[700:704]] == ["", "", "implausible jump on joint_1"] + [
        "settling"
    ]
    assert [bool(d.dropped) for d in detections[700:704]] == [True, True, False, False]
    assert is_clean(detections)
    assert detections[-1].valid
    # A turn of a revolute joint is the same place.
    turned = changed(recording, 1, slice(700, None), 0, recording[1][700:, 0] + 2.0 * np.pi)
    assert not any(d.dropped for d in detect(model, turned))


@pytest.mark.parametrize("count", [3, 95])
def test_a_contact_that_dropped_samples_have_ended_returns_without_a_verdict_before(
    model: Model, recording: Sequence[np.ndarray], count: int
) -> None:
    """For a while the allowance for the gap hides it: "no contact" would be wrong."""
    push = slice(400, 1000)
    parameters = replace(PARAMETERS, observer_gain=(15.0,), settling_time=0.2)
    pushed = changed(recording, 3, push, 3, recording[3][push, 3] - 8.0)
    failing = changed(pushed, 3, slice(700, 700 + count), 1, 1e30)
    # Some fail again while the contact is not yet recognized.
    for columns in (failing, changed(failing, 3, slice(704 + count, 708 + count), 1, 1e30)):
        detections = detect(model, columns, parameters)
        assert detections[650].contact
        assert not any(d.valid and not d.contact for d in detections[650:1000])
        assert any(d.valid and d.contact for d in detections[703 + count : 1000])


def test_a_hard_collision_beyond_the_limit_is_found(model: Model) -> None:
    """Torque sensors show more than the drives can give: 187 of 87 N·m in one MuJoCo collision."""
    t, q, v, tau = moving(model)
    rise = np.clip((np.arange(COUNT) - 700) / 4.0, 0.0, 1.0) * (np.arange(COUNT) < 760)
    tau[:, 2] -= rise * (1.5 * model.effort_limit[2] + tau[:, 2])
    detections = detect(model, (t, q, v, tau))
    (onset, *_) = [d.event for d in detections if d.event]
    assert onset.detected - t[700] < 0.006
    assert any(d.level == "collision" and d.valid for d in detections)
    assert not any(d.dropped for d in detections)


def test_an_effort_that_is_dead_from_the_start(
    model: Model, recording: Sequence[np.ndarray]
) -> None:
    """There is no verdict and no flag, and the joint is named; an unloaded joint is not."""
    detections = detect(model, changed(recording, 3, slice(None), 1, 0.0))
    assert is_clean(detections)
    assert {d.reason for d in detections[2:]} == {"joint_2 publishes no effort"}
    assert not any(d.valid for d in detections)


@pytest.mark.parametrize("gain", [1.0, 10.0])
def test_a_weight_that_friction_cancels_may_be_rounded_to_zero(
    model: Model, recording: Sequence[np.ndarray], gain: float
) -> None:
    """An effort that becomes small step by step may be zero, for ``repeated_time`` at most."""
    t, q, v, tau = recording
    share = np.clip((t[900] - t) / 0.5, 0.0, 1.0)
    effort = tau / gain
    effort[:, 1] = np.round(share * tau[:, 1], 1) / gain
    parameters = replace(PARAMETERS, effort_gain=(gain,))
    dropped = np.array([d.dropped for d in detect(model, (t, q, v, effort), parameters)])
    last = np.flatnonzero(effort[:, 1])[-1]
    after = last + round(parameters.repeated_time / DT)
    assert not dropped[: after - 1].any()
    assert set(dropped[after + 3 :]) == {"joint_2 publishes no effort"}


@pytest.mark.parametrize("measured", [True, False])
def test_a_true_zero_is_measured(model: Model, measured: bool) -> None:
    """The torque of a vertical axis at rest may be exactly zero, and then a hand accelerates it.

    The effort counts as measured if it ever was not zero.
    """
    t = 10.0 + 0.001 * np.arange(4000)
    a = np.zeros((t.size, 7))
    a[3000:3900, 0] = 2.0
    v = np.cumsum(0.001 * a, axis=0)
    q = np.array([0.1, -0.4, 0.2, -1.8, 0.3, 1.7, 0.6]) + np.cumsum(0.001 * v, axis=0)
    tau = inverse_dynamics(model, q, v, a)
    tau[::2, 1:] += 1e-6  # the samples of an arm at rest differ by their noise
    tau[:, 0] = 0.0
    if measured:
        tau[:10, 0] = 1e-3
    detections = detect(model, (t, q, v, tau), replace(PARAMETERS, contact_threshold=(0.3,)))
    late = detections[3200:3900]
    if measured:
        assert {(d.contact, d.reason) for d in late} == {(True, "")}
    else:
        assert {d.reason for d in late} == {"joint_1 publishes no effort"}


def test_no_effort_at_all(model: Model, recording: Sequence[np.ndarray]) -> None:
    """A driver that does not measure effort fills in zeros."""
    t, q, v, tau = recording
    for first in (0, 700):
        dead = tau.copy()
        dead[first:] = 0.0
        detections = detect(model, (t, q, v, dead))
        assert is_clean(detections)
        assert {d.reason for d in detections[first + 2 :]} == {"effort not measured"}


def test_velocities_that_are_zero_in_motion_are_not_measured(
    model: Model, recording: Sequence[np.ndarray]
) -> None:
    """A driver that does not measure velocity fills in zeros; friction would be contact."""
    t, q, v, tau = recording
    for first in (0, 700):
        dead = v.copy()
        dead[first:] = 0.0
        detections = detect(model, (t, q, dead, tau))
        # The momentum that vanishes when it begins in motion is a contact.
        assert is_clean(detections) == (first == 0)
        moved = np.abs(q - q[first]).max(axis=1) > 0.02
        known = first + int(np.argmax(moved[first:]))
        assert {d.reason for d in detections[known + 3 :]} == {"velocity not measured"}


def test_an_arm_at_rest_has_a_velocity_of_zero(
    model: Model, recording: Sequence[np.ndarray]
) -> None:
    """It may creep, and have moved while samples were lost."""
    t, q = 0.01 * np.arange(600), np.tile(recording[1][0], (600, 1))
    q[:, 1] += 0.015 * t  # slower than a driver rounds to zero
    q[300:, 2] += 0.1  # within the gap before
    t[300:] += 0.3
    tau = gravity_torque(model, q)
    detections = detect(model, (t, q, np.zeros_like(q), tau))
    assert "velocity not measured" not in {d.reason for d in detections}


@pytest.mark.parametrize("pushed", [False, True])
def test_efforts_that_repeat_while_the_encoders_are_live_give_no_verdict(
    model: Model, pushed: bool
) -> None:
    """The efforts of an arm at rest freeze: a later push would not show, nor its end."""
    rng = np.random.default_rng(4)
    t = 10.0 + 0.01 * np.arange(1200)
    rest = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
    q, v = rest + rng.normal(0.0, 1e-5, (t.size, 7)), rng.normal(0.0, 1e-4, (t.size, 7))
    tau = gravity_torque(model, rest) + rng.normal(0.0, 0.02, (t.size, 7))
    tau[150:, 3] -= 8.0 if pushed else 0.0
    tau[200:1000] = tau[200]
    q[850] = q[199]  # a position may return by chance
    v[850] = v[199]
    detections = detect(model, (t, q, v, tau))
    assert {(d.valid, d.contact) for d in detections[190:690]} == {(True, pushed)}
    assert {(d.valid, d.reason) for d in detections[702:1000]} == {(False, "repeated efforts")}
    assert not any(d.contact for d in detections[702:1010])
    # The first new efforts restart the observer.
    assert {(d.valid, d.contact) for d in detections[1030:]} == {(True, pushed)}
    ends = [d.event.release for d in detections[200:1000] if d.event]
    assert ends == pytest.approx([t[200]] if pushed else [])


@pytest.mark.parametrize("live", [False, True])
def test_a_driver_that_freezes_while_the_arm_speeds_up_touches_nothing(
    model: Model, live: bool
) -> None:
    """A repeated sample pairs a torque that accelerates the arm with a motion that stands still.

    The efforts may go on (``live``), because they may come from other hardware.
    """
    frozen = 150
    t = DT * np.arange(1500)
    angle = np.where(t > 0.5, 2.0 * (t - 0.5) ** 2, 0.0)[:, None]
    rate = np.where(t > 0.5, 4.0 * (t - 0.5), 0.0)[:, None]
    joints = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    q = np.array([0.1, -0.4, -0.2, -1.4, 0.3, 0.9, 0.2]) + angle * joints
    v, a = rate * joints, np.where(t > 0.5, 4.0, 0.0)[:, None] * joints
    tau = inverse_dynamics(model, q, v, a)
    for x in (q, v) if live else (q, v, tau):
        x[800 : 800 + frozen] = x[800]
    detections = detect(model, (1.0 + t, q, v, tau))
    assert not any(d.contact for d in detections)
    assert detections[799].valid
    assert detections[-1].valid
    held = [d for d in detections[800 : 800 + frozen] if not d.valid]
    # The verdict before the freeze holds for repeated_time; a sample more or less by rounding.
    assert abs(len(held) - max(frozen - round(PARAMETERS.repeated_time / DT), 0)) <= 1


@pytest.mark.parametrize("live", [False, True])
def test_a_driver_that_repeats_each_sample_gives_the_verdicts_of_a_slow_one(
    model: Model, recording: tuple[np.ndarray, ...], live: bool
) -> None:
    """The efforts may be read more often than the encoders (``live``)."""
    t, q, v, tau = recording
    slow = slice(0, 1000, 5)
    own = ContactDetector(model, PARAMETERS).update_block(t[slow], q[slow], v[slow], tau[slow])
    held = [x[slow].repeat(5, axis=0)[: len(t[:1000])] for x in (q, v, tau)]
    if live:
        held[2] = tau[:1000]
    repeated = ContactDetector(model, PARAMETERS).update_block(t[:1000], *held)
    assert np.array_equal(repeated.residual[slow], own.residual)
    assert np.array_equal(repeated.level[slow], own.level)


def test_a_refused_block_leaves_no_trace(model: Model, recording: tuple[np.ndarray, ...]) -> None:
    t, q, v, tau = (column[:100] for column in recording)
    detector, other = (ContactDetector(model, PARAMETERS) for _ in range(2))
    for d in (detector, other):
        d.update_block(t[:50], q[:50], v[:50], tau[:50])
    late, bad = t[50:].copy(), tau[50:].copy()
    late[7] = late[6]
    bad[3, 2] = np.nan
    for args, match in (
        ((late, q[50:], v[50:], tau[50:]), "stamp"),
        ((t[50:], q[50:], v[50:], bad), "tau"),
        ((t[50:], q[49:], v[49:], tau[49:]), "stamps"),
        ((t[49:], q[49:], v[49:], tau[49:]), "stamp"),
    ):
        with pytest.raises(InputError, match=match):
            detector.update_block(*args)
    with pytest.raises(InputError, match=r"tau\[2\] is nan"):
        detector.update(t[50], q[50], v[50], bad[3])
    rest = (t[50:], q[50:], v[50:], tau[50:])
    np.testing.assert_array_equal(
        detector.update_block(*rest).residual, other.update_block(*rest).residual
    )


def test_repeated_efforts_stay_repeated_after_a_restart(model: Model) -> None:
    """A restart must not give five seconds of verdicts without efforts."""
    rng = np.random.default_rng(4)
    t = 10.0 + 0.01 * np.arange(1400)
    rest = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
    q, v = rest + rng.normal(0.0, 1e-5, (t.size, 7)), rng.normal(0.0, 1e-4, (t.size, 7))
    tau = gravity_torque(model, rest) + rng.normal(0.0, 0.02, (t.size, 7))
    tau[200:1300] = tau[200]
    detector = ContactDetector(model, PARAMETERS)
    found = []
    for k in range(t.size):
        if k == 1000:
            detector.reset()
        found.append(detector.update(t[k], q[k], v[k], tau[k]))
    assert any(each.valid for each in found[250:690])
    assert not any(each.valid for each in found[710:1300])
    assert {each.reason for each in found[1002:1300]} == {"repeated efforts"}
    assert found[-1].valid


def test_a_repeated_sample_after_dropped_ones_gives_no_verdict(
    model: Model, recording: Sequence[np.ndarray]
) -> None:
    """The driver fails, and then sends its last good sample again for a while."""
    pushed = changed(recording, 3, slice(400, 1000), 3, recording[3][400:1000, 3] - 8.0)
    failing = changed(pushed, 3, slice(700, 704), 1, 1e30)
    for column in failing[1:]:
        column[704:720] = column[699]
    detections = detect(model, failing)
    assert detections[701].contact
    assert not any(d.valid for d in detections[702:720])
    assert not any(d.valid and not d.contact for d in detections[702:990])
    assert detections[980].contact
