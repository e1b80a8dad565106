"""A kind of effort that does not fit is refuted, and one that fits never is."""

from dataclasses import replace

import numpy as np
import pytest

from rbd_control.dynamics import Model, frame_jacobian, gravity_torque, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import EffortKindJudge

TORQUE = DetectorParameters()
WITHOUT = DetectorParameters(effort_kind="torque_without_gravity")
BENT = np.array([0.3, 0.9, 0.2, -1.2, 0.3, 1.1, 0.2])
NOISE = 0.05


def feed(
    judge: EffortKindJudge,
    q: np.ndarray,
    tau: np.ndarray,
    *,
    start: float = 0.0,
    seconds: float = 3.0,
) -> EffortKindJudge:
    """Let an arm rest at q with effort tau."""
    noise = np.random.default_rng(1)
    for stamp in np.arange(start, start + seconds, 0.02):
        judge.add(stamp, q, np.zeros_like(tau), tau + NOISE * noise.normal(size=tau.size))
    return judge


def state(model: Model, parameters: DetectorParameters, q: np.ndarray, tau: np.ndarray) -> str:
    return feed(EffortKindJudge(model, parameters), q, tau).decision.state


def test_an_arm_at_rest_refutes_the_wrong_kind(model: Model) -> None:
    g = gravity_torque(model, BENT)
    for parameters, tau in ((TORQUE, g), (WITHOUT, 0.0 * g)):
        assert state(model, parameters, BENT, tau) == "confirmed"
    judge = feed(EffortKindJudge(model, TORQUE), BENT, 0.0 * g)
    assert judge.is_refuted
    assert "effort of joint_2 is" in judge.decision.text
    assert f"where gravity alone requires {g[1]:.1f} N·m" in judge.decision.text
    assert "set effort_kind: torque_without_gravity" in judge.decision.text
    assert len(judge.decision.text) < 200
    # A payload may weigh as much in one pose, but not in two.
    judge = feed(EffortKindJudge(model, WITHOUT), BENT, g)
    assert "a payload that the model lacks may be the cause: move the arm" in judge.decision.text
    for k, q in enumerate((-BENT, 0.5 * BENT), 3):
        feed(judge, q, gravity_torque(model, q), start=float(k), seconds=1.0)
    assert judge.is_refuted
    assert judge.decision.text.endswith("includes gravity; set effort_kind: torque")


def test_an_arm_in_motion_refutes_the_wrong_kind(model: Model) -> None:
    judge = EffortKindJudge(model, TORQUE)
    w = 2.0 * np.pi / np.array([5.0, 4.0, 6.0, 3.5, 3.0, 2.5, 2.2])
    for t in np.arange(0.0, 8.0, 0.02):
        q, v = BENT + 0.4 * np.sin(w * t), 0.4 * w * np.cos(w * t)
        tau = inverse_dynamics(model, q, v, -0.4 * w**2 * np.sin(w * t)) + np.sign(v)
        judge.add(t, q, v, tau - gravity_torque(model, q))
    assert judge.is_refuted


def test_efforts_between_the_kinds_are_neither_confirmed_nor_refuted(model: Model) -> None:
    """A support that carries half of the weight leaves both kinds equally wrong."""
    g = gravity_torque(model, BENT)
    for parameters in (TORQUE, WITHOUT):
        assert state(model, parameters, BENT, 0.5 * g) == "open"


def random_pose(model: Model, rng: np.random.Generator) -> np.ndarray:
    low, high = np.maximum(model.lower_limit, -2.5), np.minimum(model.upper_limit, 2.5)
    return np.asarray(rng.uniform(low, high))


def disturbed(model: Model, rng: np.random.Generator, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a pose and the torque with gravity of an arm that differs from its description."""
    q = random_pose(model, rng)
    if what == "payload":
        com = rng.uniform(-0.1, 0.1, size=3)
        mass = rng.uniform(0.5, 8.0)
        loaded = model.with_payload(model.joint_links[-1], mass, com, np.zeros((3, 3)))
        return q, gravity_torque(loaded, q)
    if what == "tilt":
        field = rng.normal(size=3)
        field *= 9.81 / np.linalg.norm(field)
        tilted = replace(model, arrays=model.arrays._replace(gravity=field))
        return q, gravity_torque(tilted, q)
    link = model.joint_links[rng.integers(3, model.nv)]
    push = rng.normal(size=3) * rng.choice([30.0, 100.0, 300.0])
    return q, gravity_torque(model, q) - frame_jacobian(model, q, link)[3:].T @ push


@pytest.mark.parametrize("what", ["payload", "tilt", "support"])
@pytest.mark.parametrize("without", [False, True])
def test_the_right_kind_is_never_refuted(model: Model, what: str, without: bool) -> None:
    """An unknown payload, a tilted base and a support at the start are not taken for gravity."""
    rng = np.random.default_rng(7)
    parameters = WITHOUT if without else TORQUE
    for _ in range(40):
        q, tau = disturbed(model, rng, what)
        tau = tau - without * gravity_torque(model, q)
        # Motor-side friction at rest points anywhere.
        tau = tau + rng.uniform(-1.0, 1.0, size=tau.size)
        judge = feed(EffortKindJudge(model, parameters), q, tau, seconds=1.2)
        assert not judge.is_refuted, (what, q.round(2), tau.round(1), judge.decision.text)


def test_a_refutation_ends_when_the_driver_publishes_something_else(model: Model) -> None:
    g = gravity_torque(model, BENT)
    judge = feed(EffortKindJudge(model, TORQUE), BENT, 0.0 * g)
    judge.start_again()
    assert judge.is_refuted, "a jump of the clock changes nothing about the driver"
    feed(judge, BENT, g, start=20.0)
    assert judge.decision.state == "confirmed"
    judge = feed(EffortKindJudge(model, TORQUE), BENT, 0.0 * g)
    judge.set_parameters(model, WITHOUT)
    assert not judge.is_refuted
    feed(judge, BENT, 0.0 * g, start=3.0)
    assert judge.decision.text == "fits"


def test_contact_never_refutes_what_was_confirmed(model: Model) -> None:
    g = gravity_torque(model, BENT)
    judge = feed(EffortKindJudge(model, TORQUE), BENT, g)
    feed(judge, BENT, 0.0 * g, start=3.0, seconds=30.0)
    assert judge.decision.state == "confirmed"
    # After a pause the driver may be another one.
    feed(judge, BENT, 0.0 * g, start=40.0)
    assert judge.is_refuted
