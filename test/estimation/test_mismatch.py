"""Each mismatch of model, effort and settings is reported, and no other."""

from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import RecordedMotion, find_mismatches

PARAMETERS = DetectorParameters(contact_threshold=(1.0,), collision_threshold=(9.0,))


def motion(model: Model, seconds: float = 20.0, rate: float = 200.0) -> RecordedMotion:
    """Sines in every joint, the torque that of the model and a little noise."""
    t = np.arange(0.0, seconds, 1.0 / rate)
    w = 2.0 * np.pi / np.array([5.0, 4.0, 6.0, 3.5, 3.0, 2.5, 2.2])
    rest = np.array([0.0, 0.4, 0.0, -1.4, 0.3, 0.8, 0.0])
    q = rest + 0.5 * np.sin(t[:, None] * w)
    v = 0.5 * w * np.cos(t[:, None] * w)
    a = -0.5 * w**2 * np.sin(t[:, None] * w)
    noise = 0.02 * np.random.default_rng(3).normal(size=v.shape)
    return RecordedMotion("sines", t, q, v, inverse_dynamics(model, q, v, a) + noise)


def kinds(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters = PARAMETERS
) -> list[tuple[str, str]]:
    return [(found.kind, found.joint) for found in find_mismatches(motion, model, parameters)]


def test_no_mismatch_where_all_fits(model: Model) -> None:
    assert kinds(motion(model), model) == []


def test_gravity_that_is_gone(model: Model) -> None:
    free = motion(model)
    free = replace(free, tau=free.tau - gravity_torque(model, free.q))
    assert kinds(free, model) == [("gravity", "")]
    declared = replace(PARAMETERS, effort_kind="torque_without_gravity")
    assert kinds(free, model, declared) == []
    # Declared, and yet it is there.
    assert kinds(motion(model), model, declared) == [("gravity", "")]


def test_a_hand_that_the_model_lacks(model: Model) -> None:
    com = np.array([0.01, -0.02, 0.05])
    robot = model.with_payload(model.joint_links[-1], 0.8, com, np.zeros((3, 3)))
    (found,) = find_mismatches(motion(robot), model, PARAMETERS)
    assert found.kind == "payload"
    # Twenty seconds in noise leave the mass good to a few grams.
    assert "0.80 kg" in found.text
    assert "model lacks" in found.text


def test_a_sign_and_a_unit(model: Model) -> None:
    wrong = motion(model)
    wrong.tau[:, 1] *= -1.0
    wrong.tau[:, 3] /= 8.0
    found = {item.joint: item for item in find_mismatches(wrong, model, PARAMETERS)}
    assert found["joint_2"].kind == "sign"
    assert found["joint_4"].kind == "unit"
    assert "effort_gain to 8" in found["joint_4"].text


def test_a_constant_torque(model: Model) -> None:
    biased = motion(model)
    biased.tau[:, 4] -= 2.0
    (found,) = find_mismatches(biased, model, PARAMETERS)
    assert (found.kind, found.joint) == ("offset", "joint_5")
    assert "+2.00" in found.text


def test_a_joint_without_effort(model: Model) -> None:
    """It is named, whether or not gravity loads it, and the others are judged without it."""
    for i in (1, 5):
        dead = motion(model)
        dead.tau[:, i] = 0.0
        (found,) = find_mismatches(dead, model, PARAMETERS)
        assert (found.kind, found.joint) == ("dead", f"joint_{i + 1}")
        assert f"joint_{i + 1} publishes no effort" in found.text
    dead.tau[:, 2] *= -1.0
    assert kinds(dead, model) == [("dead", "joint_6"), ("sign", "joint_3")]
