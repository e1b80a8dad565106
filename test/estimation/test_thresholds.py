"""Thresholds: defaults from effort limits and reach, and the share of friction at reversals."""

from dataclasses import replace

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.observers import MomentumObserver, delay_torques
from rbd_control.estimation.thresholds import (
    default_contact_thresholds,
    less_friction,
    motion_errors,
    reversals,
    uncalibrated,
    with_default_thresholds,
)

URDF = """<robot name="arm">
  <link name="base"/>
  {links}
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="{shoulder}" velocity="3"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.6 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="{elbow}" velocity="3"/></joint>
  <joint name="flange" type="fixed"><parent link="lower"/><child link="tool"/>
    <origin xyz="0.4 0 0"/></joint>
  <joint name="slide" type="prismatic"><parent link="lower"/><child link="finger"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="0" effort="{slide}" velocity="1"/></joint>
</robot>"""


LINK = """<link name="{}"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"
  ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def arm(shoulder: float = 80.0, elbow: float = 30.0, slide: float = 20.0) -> Model:
    """Return an arm that is stretched to 1 m in the middle of its ranges."""
    links = "".join(LINK.format(name) for name in ("upper", "lower", "tool", "finger"))
    return Model.from_urdf(URDF.format(links=links, shoulder=shoulder, elbow=elbow, slide=slide))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        # 0.4 of 20 N at 1.0 m and at 0.4 m: 8 and 3.2, cut to a tenth of the limit.
        ((70.0, 50.0, 20.0), (7.0, 3.2, 2.0)),
        # A strong drive has friction of its own: a twentieth of the limit.
        ((400.0, 200.0, 1000.0), (20.0, 10.0, 50.0)),
        # A weak one, too: 1.5 N·m, but no more than 15 % of the limit.
        ((12.0, 12.0, 4.0), (1.5, 1.5, 0.6)),
        # No limit in the description: the push alone.
        ((0.0, 0.0, 0.0), (8.0, 3.2, 8.0)),
    ],
)
def test_the_rule(limits: tuple[float, ...], expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(default_contact_thresholds(arm(*limits)), expected)


def test_given_thresholds_are_kept() -> None:
    model = arm()
    given = DetectorParameters(
        contact_threshold=(1.0,), collision_threshold=(9.0,), rest_threshold=(0.7,)
    )
    assert with_default_thresholds(given, model) is given
    assert uncalibrated(given, model) == ""
    some = replace(given, contact_threshold=(0.0, 2.0, 0.0))
    assert with_default_thresholds(some, model).contact_threshold == (4.5, 2.0, 2.0)
    assert "(4.5, 2, 2 N·m or N)" in uncalibrated(some, model)
    contact = with_default_thresholds(replace(given, collision_threshold=(0.0,)), model)
    # Five contact thresholds or 15 % of the effort limit.
    assert contact.collision_threshold == (12.0, 5.0, 5.0)
    with pytest.raises(ParameterError, match="2 values .* 3 joints"):
        with_default_thresholds(replace(given, contact_threshold=(0.0, 1.0)), model)


def test_the_detector_uses_them() -> None:
    """The detector also uses them after a change of parameters or of the model."""
    model = arm()
    detector = ContactDetector(model, DetectorParameters())
    expected = default_contact_thresholds(model)
    np.testing.assert_allclose(detector.contact_threshold, expected)
    assert (detector.collision_threshold >= 5.0 * expected).all()
    detector.set_model(model.with_payload("tool", 3.0, np.zeros(3), np.zeros((3, 3))))
    np.testing.assert_allclose(detector.contact_threshold, expected)
    detector.set_parameters(DetectorParameters(contact_threshold=(1.0,)))
    np.testing.assert_allclose(detector.contact_threshold, 1.0)
    detector.set_parameters(DetectorParameters())
    np.testing.assert_allclose(detector.contact_threshold, expected)


SLOW, POLE = np.array([0.02]), np.array([50.0])


def traces(v: np.ndarray, dt: float = 0.001) -> np.ndarray:
    v = np.asarray(v, dtype=float)[:, None]
    return reversals(np.full(len(v) - 1, dt), v, SLOW, POLE)[:, 0]


def test_fades_with_the_time_constant_whatever_the_step() -> None:
    fine = traces(np.full(101, 0.5))
    np.testing.assert_allclose(fine, np.exp(-50.0 * 0.001 * np.arange(1, 101)), rtol=1e-12)
    coarse = traces(np.full(11, 0.5), dt=0.01)
    np.testing.assert_allclose(coarse, fine[9::10], rtol=1e-12)


def test_slow_joints_and_changes_of_sign_are_reversals() -> None:
    moving = [0.5] * 50
    assert traces([*moving, 0.01])[-1] == 1.0
    assert traces([*moving, -0.5])[-1] == 1.0
    assert traces([*moving, 0.5])[-1] < 0.1


def test_friction_explains_no_more_than_its_allowance() -> None:
    found = [less_friction.py_func(r, 1.0) for r in (-3.0, -1.0, 0.4, 2.5)]
    np.testing.assert_allclose(found, [-2.0, 0.0, 0.0, 1.5], atol=1e-15)


def test_a_late_velocity_reverses_earlier() -> None:
    """The joint slows down by 20 rad/s²; with a period of 1 ms, 4 ms later it stands still."""
    v = np.concatenate([np.full(150, 0.5), 0.49 - 0.02 * np.arange(31)])
    late = reversals(np.full(len(v) - 1, 0.001), v[:, None], SLOW, POLE, 0.003)[:, 0]
    first = [100 + int(np.argmax(trace[100:] == 1.0)) for trace in (traces(v), late)]
    assert first[0] - first[1] == 4


def test_errors_of_the_model_are_covered() -> None:
    """The residual of a late velocity, wrong masses and wrong gains never exceeds ``error``."""
    rng = np.random.default_rng(4)
    model, dt, delay, share, gain = arm(), np.full(2000, 0.001), 0.003, 0.05, 0.1
    # A random torque with hard steps, and a momentum that follows it.
    drive = np.repeat(rng.normal(0.0, 10.0, (21, 3)), 100, axis=0)[:2001]
    p = np.cumsum(drive, axis=0) * 0.001
    late = np.empty_like(drive)
    delay_torques(dt, drive, delay, late)
    x = (late - drive)[1:] + share * np.diff(p, axis=0) / dt[:, None] + gain * drive[1:]
    residual = MomentumObserver(model, 50.0).filter(dt, x)
    error = motion_errors(
        dt, p, drive, drive, np.full(3, share), np.full(3, gain), delay, np.full(3, 50.0)
    )
    assert (np.abs(residual) <= error + 1e-9).all()
    # The bound is not loose: it is reached in the steps, by up to the sum of both errors.
    assert (np.abs(residual).max(axis=0) > 0.5 * error.max(axis=0)).all()


def test_the_allowance_for_a_late_effort_comes_with_the_motion() -> None:
    """The effort shows a stop 6 ms after it; the residual was past its threshold by then."""
    k, late, nothing = np.arange(300), 6, np.zeros(1)
    force = np.where((k > 100) & (k <= 200), 50.0, 0.0)[:, None]
    dt, p = np.full(k.size - 1, 0.001), 0.001 * np.cumsum(force, axis=0)
    drive = np.roll(force, late, axis=0)
    x = np.diff(p, axis=0) / 0.001 - drive[1:]
    pole, delay = np.array([30.0]), 0.006
    error = motion_errors(dt, p, drive, drive, nothing, nothing, delay, pole)
    residual = np.empty_like(x)
    before = 0.0
    for j, value in enumerate(x[:, 0]):
        before += (1.0 - np.exp(-30.0 * 0.001)) * (value - before)
        residual[j] = before
    rising = slice(100, 100 + late)
    # A pure delay exceeds the filter of the same delay, by 1.75 times at its end.
    assert (np.abs(residual[rising]) <= 1.8 * error[rising]).all()


def test_the_error_beyond_the_covered_one_raises_thresholds() -> None:
    """A step of the motor torque raises the threshold for some time constants, and no longer."""
    links = "".join(LINK.format(name) for name in ("upper", "lower", "tool", "finger"))
    text = URDF.format(links=links, shoulder=80, elbow=30, slide=20)
    model, count = Model.from_urdf(text, gravity=(0.0, 0.0, 0.0)), 600
    # Samples that repeat exactly give no verdict.
    t, still = 0.001 * np.arange(1, count + 1), np.random.default_rng(0).normal(0, 1e-9, (count, 3))
    tau = 1e3 * still
    tau[300:, 0] += 2.0
    given = DetectorParameters(contact_threshold=(5.0,), delay_error=0.01)
    found = {}
    for covered in (0.0, 0.3, 9.0):
        parameters = replace(given, covered_error=(covered,))
        detector = ContactDetector(model, parameters)
        found[covered] = detector.update_block(t, still, still, tau).threshold[:, 0]
    # Without an error the threshold still grows, by torque between samples.
    raised = {covered: found[covered] - found[9.0] for covered in (0.0, 0.3)}
    # The step of 2 N·m, delayed by 10 ms and filtered by 50 1/s, differs from itself by up to 0.5.
    assert raised[0.0][300:].max() == pytest.approx(0.5, rel=0.05)
    assert raised[0.3][300:].max() == pytest.approx(raised[0.0][300:].max() - 0.3)
    assert raised[0.0][290] < 1e-5
    assert raised[0.0][-1] < 0.01
