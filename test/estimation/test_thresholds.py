"""Thresholds: defaults from effort limits and reach, and the share of friction at reversals."""

from dataclasses import replace

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import (
    default_contact_thresholds,
    less_friction,
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
    given = DetectorParameters(contact_threshold=(1.0,), collision_threshold=(9.0,))
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
