"""``check`` names each defect of a recording and what remains undetermined, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from free_motion import COULOMB, lively_motion, recording
from robots import REAL_PANDA, RECORDINGS, panda_arm_urdf

from rbd_control.check import CheckResult, check_recording
from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import RecordedMotion
from rbd_control.identification.findings import Line
from rbd_control.playback.recording import read_recording
from rbd_control.simulation import arm7_urdf

GAINS = np.array([8.0, 9.0, 7.0, 7.5, 5.0, 4.0, 3.0])


TURN = np.radians(6.0)


GRAVITY = (0.0, 9.81 * float(np.sin(TURN)), -9.81 * float(np.cos(TURN)))


Spoil = Callable[[RecordedMotion], RecordedMotion]


@pytest.fixture(scope="module")
def free(model: Model) -> RecordedMotion:
    return lively_motion(model, 16.0)


def check(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters | None = None
) -> CheckResult:
    return check_recording(recording(motion, model.joint_names), model, parameters)


def complaints(result: CheckResult) -> dict[str, list[str]]:
    """Return the texts of the lines that are not good, by topic."""
    found: dict[str, list[str]] = {}
    for line in result.lines:
        if line.level != "good":
            found.setdefault(line.topic, []).append(line.text)
    return found


def every(step: int) -> Spoil:
    return lambda m: RecordedMotion(m.name, *(x[::step] for x in (m.t, m.q, m.v, m.tau)))


def columns(i: int, j: int, *, names: bool) -> Spoil:
    """Exchange the efforts of two joints, or all that is published of them."""

    def spoil(m: RecordedMotion) -> RecordedMotion:
        order = np.arange(7)
        order[[i, j]] = j, i
        q, v = (m.q[:, order], m.v[:, order]) if names else (m.q, m.v)
        return RecordedMotion(m.name, m.t, q, v, m.tau[:, order])

    return spoil


def factor(factors: dict[int, float]) -> Spoil:
    """Multiply the efforts of some joints."""

    def spoil(m: RecordedMotion) -> RecordedMotion:
        tau = m.tau.copy()
        for i, value in factors.items():
            tau[:, i] *= value
        return replace(m, tau=tau)

    return spoil


def velocities(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    return lambda m: replace(m, v=change(m.v.copy()))


def of_one(joint: int, value: float) -> Spoil:
    """Multiply the velocity of a joint."""
    return velocities(lambda v: v * np.where(np.arange(7) == joint, value, 1.0))


def gaps(m: RecordedMotion) -> RecordedMotion:
    lost = (m.t % 4.0 > 2.0) & (m.t % 4.0 < 2.3)
    return m.only(~lost)


def repeated(m: RecordedMotion) -> RecordedMotion:
    """Publish at twice the rate at which the driver reads."""
    k = np.arange(m.t.size) // 2 * 2
    return RecordedMotion(m.name, m.t, m.q[k], m.v[k], m.tau[k])


def jittery(m: RecordedMotion) -> RecordedMotion:
    noise = np.random.default_rng(1).uniform(-0.45, 0.45, m.t.size) * np.median(np.diff(m.t))
    return replace(m, t=m.t + 2.0 * np.abs(noise) - noise.min())


def test_a_good_recording_has_nothing_wrong(free: RecordedMotion, model: Model) -> None:
    result = check(free, model)
    assert complaints(result) == {}
    assert result.level == "good"
    assert not any(re.search(r"\de[-+]\d", line.text) for line in result.lines)
    for effort, coulomb in zip(result.efforts, COULOMB, strict=True):
        assert effort.kind == "torque"
        # Friction of the simulation is smooth, and 1 % of the weight looks a little like it.
        assert effort.friction[0] == pytest.approx(coulomb, abs=0.15)
    assert [push.link for push in result.pushes] == list(model.joint_links)


SPOILT: dict[str, tuple[Spoil, str, str]] = {
    "sign of a loaded joint": (factor({1: -1.0}), "effort", "reversed: joint_2 -(1|0.99.) times"),
    "currents": (
        factor({i: 1.0 / gain for i, gain in enumerate(GAINS)}),
        "effort",
        "motor current .*joint_2 0.111 times the model's torque, 9 N·m per unit of effort",
    ),
    "dead joint": (factor({4: 0.0}), "effort", "not measured: joint_5 exactly zero"),
    "efforts of two joints": (
        columns(1, 3, names=False),
        "order of joints",
        "efforts of joint_2 and joint_4 are exchanged",
    ),
    "names of two joints": (
        columns(1, 3, names=True),
        "order of joints",
        "names of joint_2 and joint_4 are exchanged",
    ),
    "sign of a velocity": (of_one(2, -1.0), "velocity", r"joint_3 \(wrong sign"),
    "30 Hz": (every(8), "rate", "31 Hz"),
    "gaps": (gaps, "gaps", "4 steps longer.* the longest 0.3 s.* starts again"),
    "repeated samples": (repeated, "repeated samples", "50.*% of the samples"),
    "jitter": (jittery, "jitter", "stamps are not the times"),
}


@pytest.mark.parametrize(("spoil", "topic", "says"), SPOILT.values(), ids=SPOILT.keys())
def test_each_fault_of_a_recording_is_named(
    spoil: Spoil, topic: str, says: str, free: RecordedMotion, model: Model
) -> None:
    found = complaints(check(spoil(free), model))
    # Without a calibration that can be trusted the thresholds are defaults, which is said too.
    others = set(found) - {topic, "thresholds"}
    assert not others
    assert any(re.search(says, text) for text in found[topic]), found[topic]


def test_another_rate_than_in_the_calibration_is_named(free: RecordedMotion, model: Model) -> None:
    """A driver that publishes every sample twice has the rate of its measurements."""
    rate = 1.0 / float(np.median(np.diff(free.t)))
    declared = DetectorParameters(calibrated_rate=4.0 * rate)
    (text,) = complaints(check(free, model, declared))["calibrated rate"]
    assert f"come at {rate:.4g} Hz, and thresholds were calibrated at {4.0 * rate:.4g} Hz" in text
    declared = DetectorParameters(calibrated_rate=2.0 * rate)
    assert "calibrated rate" in complaints(check(repeated(free), model, declared))


def test_gravity_that_the_driver_takes_off(free: RecordedMotion, model: Model) -> None:
    motion = replace(free, tau=free.tau - gravity_torque(model, free.q))
    found = complaints(check(motion, model))
    assert set(found) == {"effort", "thresholds"}
    assert "all joints without gravity; set effort_kind" in found["effort"][0]
    declared = DetectorParameters(effort_kind="torque_without_gravity")
    assert complaints(check(motion, model, declared)) == {}
    # Declared, and yet it is there.
    assert "with gravity" in complaints(check(free, model, declared))["effort"][0]


def test_a_hand_that_is_not_as_described(model: Model) -> None:
    com = np.array([0.0, 0.02, 0.06])
    heavy = model.with_payload(model.joint_links[-1], 0.7, com, np.zeros((3, 3)))
    result = check(lively_motion(heavy, 10.0), model)
    assert set(complaints(result)) == {"payload", "thresholds"}
    (line,) = [line for line in result.lines if line.topic == "payload"]
    # The masses of the arm are 1 % off.
    assert line.values["mass"] == pytest.approx(0.7, abs=0.1)
    np.testing.assert_allclose(line.values["com"], com, atol=0.03)
    assert "the model lacks" in line.text


def test_a_base_that_is_tilted(free: RecordedMotion, model: Model) -> None:
    other = Model.from_urdf(arm7_urdf(), gravity=GRAVITY)
    result = check(free, other)
    assert set(complaints(result)) == {"mounting", "thresholds"}
    (line,) = [line for line in result.lines if line.topic == "mounting"]
    assert line.values["tilt"] == pytest.approx(6.0, abs=0.3)


def test_a_detector_that_cannot_be_used_promises_nothing(
    free: RecordedMotion, model: Model
) -> None:
    """The thresholds were green, and the weakest push was some newtons."""
    parameters = DetectorParameters(contact_threshold=(0.5,))
    result = check(free, model, parameters)
    found = complaints(result)
    assert re.search(r"reports contact .* in (9\d\.\d|100\.0)%", found["thresholds"][0])
    assert "not determined" in found["weakest push"][0]
    assert "detector reports contact" in found["contact"][0]
    assert result.level == "bad"
    assert not result.pushes


def test_an_arm_at_rest_does_not_tell_that_all_is_right(model: Model) -> None:
    """No joints were swapped, nothing touched the arm, and the moving arm repeated samples."""
    t = np.arange(0.0, 12.0, 0.004)
    q = np.tile([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0], (t.size, 1))
    noise = np.repeat(np.random.default_rng(0).normal(0.0, 1e-4, (t.size // 2, 7)), 2, axis=0)
    tau = gravity_torque(model, q) + 100.0 * noise
    found = complaints(check(RecordedMotion("rest", t, q, noise, tau), model))
    for topic in ("order of joints", "contact"):
        assert found[topic] == ["not determined: no joint moves"]
    assert "moving arm" not in found["repeated samples"][0]


@pytest.mark.parametrize("name", ["free", "push20_link7"])
def test_recordings_that_ship_are_good(name: str) -> None:
    arm = Model.from_urdf(panda_arm_urdf())
    found = complaints(check_recording(read_recording(RECORDINGS / name), arm))
    # Three seconds are too few for thresholds; contacts in them are told of.
    assert not set(found) - ({"thresholds"} if name != "free" else set())


def test_a_real_arm_is_good_but_slow() -> None:
    arm = Model.from_urdf(panda_arm_urdf())
    result = check_recording(read_recording(REAL_PANDA), arm)
    assert set(complaints(result)) == {"rate"}
    assert result.level == "doubtful"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urdf = tmp_path / "panda.urdf"
    urdf.write_text(panda_arm_urdf())
    arguments = ["check", str(RECORDINGS / "free"), "--urdf", str(urdf)]
    report, out = tmp_path / "report", tmp_path / "check.json"
    assert main([*arguments, "--report", str(report), "--json", str(out)]) == 0
    page = capsys.readouterr().out
    assert re.search(r"GOOD.*effort.*torque", page)
    assert "weakest push" in page
    assert "GOOD" in (report / "check.html").read_text()
    content = json.loads(out.read_text())
    assert content == json.loads((report / "check.json").read_text())
    assert content["level"] == "good"
    assert [push["link"] for push in content["weakest_pushes"]][-1] == "panda_link7"
    config = tmp_path / "wrong.yaml"
    config.write_text(
        "contact_detector:\n  ros__parameters: {effort_kind: torque_without_gravity}\n"
    )
    assert main([*arguments, "--config", str(config)]) == 1
    assert re.search(r"WRONG.*effort.*with gravity", capsys.readouterr().out)
    assert main(["check", str(tmp_path / "none"), "--urdf", str(urdf)]) == 2


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


def swinging(model: Model, seconds: float = 12.0) -> RecordedMotion:
    """Return a motion of the arm as its model describes it, with noise in the torque."""
    t = np.arange(0.0, seconds, 0.004)
    w = 2.0 * np.pi / np.array([3.1, 2.3])[: model.nv]
    phase = t[:, None] * w
    q, v, a = 0.9 * np.sin(phase), 0.9 * w * np.cos(phase), -0.9 * w**2 * np.sin(phase)
    tau = inverse_dynamics(model, q, v, a)
    noise = np.random.default_rng(3).normal(size=(2, *q.shape))
    return RecordedMotion("swinging", t, q, v + 1e-4 * noise[0], tau + 0.05 * noise[1])


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
