"""``check`` says what an arm or a recording leaves undetermined."""

from __future__ import annotations

import numpy as np
import pytest
from free_motion import recording

from rbd_control.check import CheckResult, check_recording
from rbd_control.check.explanations import _variances
from rbd_control.check.findings import Line
from rbd_control.check.run import push_line
from rbd_control.check.weakest_push import WeakestPush
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.identification import Motion
from rbd_control.simulation import arm7_urdf

LINK = (
    '<link name="{name}"><inertial><origin xyz="{com} 0 0"/><mass value="2"/>'
    '<inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
    '<origin xyz="{x} 0 0"/><axis xyz="{axis}"/>'
    '<limit lower="-3" upper="3" velocity="4" effort="60"/></joint>'
)


def planar_arm(axis: str, joints: int) -> Model:
    """Return an arm whose joints all have the same axis."""
    parts = ['<robot name="planar"><link name="base"/>']
    for i in range(joints):
        parent = f"link_{i}" if i else "base"
        name, x = f"joint_{i + 1}", 0.4 if i else 0.0
        parts.append(LINK.format(name=f"link_{i + 1}", com=0.2))
        parts.append(JOINT.format(name=name, parent=parent, child=f"link_{i + 1}", x=x, axis=axis))
    return Model.from_urdf("".join([*parts, "</robot>"]))


def swinging(model: Model, seconds: float = 12.0) -> Motion:
    """Return a motion of the arm as its model describes it, with noise in the torque."""
    t = np.arange(0.0, seconds, 0.004)
    w = 2.0 * np.pi / np.array([3.1, 2.3])[: model.nv]
    phase = t[:, None] * w
    q, v, a = 0.9 * np.sin(phase), 0.9 * w * np.cos(phase), -0.9 * w**2 * np.sin(phase)
    tau = inverse_dynamics(model, q, v, a)
    noise = np.random.default_rng(3).normal(size=(2, *q.shape))
    return Motion("swinging", t, q, v + 1e-4 * noise[0], tau + 0.05 * noise[1])


def check(motion: Motion, model: Model) -> CheckResult:
    return check_recording(recording(motion, model.joint_names), model)


def line(result: CheckResult, topic: str) -> Line:
    (found,) = (line for line in result.lines if line.topic == topic)
    return found


def test_gravity_along_all_axes_is_not_determined() -> None:
    """No joint measures it: a base that rolls out of the plane looks the same."""
    model = planar_arm("0 1 0", 2)
    found = line(check(swinging(model), model), "mounting")
    assert found.level == "doubtful"
    assert found.text.startswith("not determined by this motion")
    assert found.values == {"tilt": None, "deviation": None}


def pan_tilt() -> Model:
    """Return a head whose link origins all lie on both joint axes."""
    parts = ['<robot name="head"><link name="base"/>']
    for name, parent, axis, com in (("pan", "base", "0 0 1", 0.0), ("tilt", "pan", "0 1 0", 0.15)):
        parts.append(LINK.format(name=name, com=com))
        # Rounding leaves a lever of 1e-17 m, which must not count as information.
        turned = JOINT.replace('xyz="{x} 0 0"/>', 'xyz="{x} 0 0.2" rpy="0.1 0.2 0.3"/>')
        turned = turned if name == "pan" else JOINT
        parts.append(turned.format(name=f"{name}_joint", parent=parent, child=name, x=0, axis=axis))
    return Model.from_urdf("".join([*parts, "</robot>"]))


@pytest.mark.parametrize("model", [pan_tilt(), planar_arm("0 1 0", 1)], ids=["head", "one joint"])
def test_origins_on_the_axes_measure_neither_payload_nor_push(model: Model) -> None:
    """It was a payload of 0 ± 8.8e13 kg, and an alarm over thresholds that were not at fault."""
    result = check(swinging(model, 24.0), model)
    for topic in ("payload", "weakest push"):
        found = line(result, topic)
        assert found.level == "doubtful"
        assert found.text.startswith("not determined")
    assert result.level == "doubtful"
    assert line(result, "thresholds").level == "good"


def test_coefficients_without_information_have_infinite_variance() -> None:
    A = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_allclose(_variances(A), np.diag(np.linalg.inv(A.T @ A)), rtol=1e-9)
    A[:, 2] = 0.0
    assert np.isinf(_variances(A)).tolist() == [False, False, True, False]
    A[:, 1] = -3.0 * A[:, 0]
    assert np.isinf(_variances(A)).tolist() == [True, True, True, False]
    assert np.isinf(_variances(np.zeros((5, 2)))).all()


def test_no_push_at_all() -> None:
    inf = float("inf")
    found = push_line([WeakestPush(link, inf, inf, (inf, inf, inf)) for link in ("a", "b")])
    assert (found.level, "no push is detected" in found.text) == ("bad", True)


@pytest.mark.parametrize("noise", [1e-5])
def test_an_arm_at_rest_tells_nothing_about_friction(noise: float) -> None:
    """Far below the velocity scale Coulomb and viscous friction are the same; it told 4.7e7 N·m."""
    model, random = Model.from_urdf(arm7_urdf()), np.random.default_rng(0)
    held = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
    t = np.arange(0.0, 16.0, 0.01)
    q = held + 1e-6 * random.normal(size=(t.size, 7))
    v = noise * random.normal(size=(t.size, 7))
    tau = gravity_torque(model, held) + 1e-3 * random.normal(size=(t.size, 7))
    found = line(check(Motion("rest", t, q, v, tau), model), "friction")
    assert found.text == "no Coulomb friction is seen, or the motion does not determine it"
