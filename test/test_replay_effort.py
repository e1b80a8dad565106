"""Replay of efforts that are no torque: the warnings name the cause and the remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from swinging_arm import (
    MODEL,
    PARAMETERS,
    START,
    URDF,
    Efforts,
    recorded,
    swing,
    write_csv,
)

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JointMessage
from rbd_control.playback.measures import EffortCheck
from rbd_control.playback.replay import replay
from rbd_control.simulation import arm7_urdf

HAND = MODEL.with_payload("lower", 0.5, (0.5, 0.0, 0.0), np.zeros((3, 3)))


EFFORTS: dict[str, tuple[Efforts, str]] = {
    "torque": (lambda q, tau: tau, ""),
    "current": (lambda q, tau: 0.09 * tau, "0.09 .* motor current .* effort_gain to 11.1"),
    "millinewtons": (lambda q, tau: 1000.0 * tau, "motor current or another unit"),
    "reversed": (lambda q, tau: -tau, "shoulder has the wrong sign"),
    "gravity taken off": (
        lambda q, tau: tau - gravity_torque(MODEL, q),
        "set effort_kind to torque_without_gravity",
    ),
    "twice as much": (lambda q, tau: 2.0 * tau, "2 times .* another unit"),
    "a hand": (
        lambda q, tau: tau + gravity_torque(HAND, q) - gravity_torque(MODEL, q),
        "carries 0.[45]. kg .* that the model lacks",
    ),
}


@pytest.mark.parametrize(("effort", "says"), EFFORTS.values(), ids=EFFORTS.keys())
def test_effort_that_is_no_torque_is_said_first(effort: Efforts, says: str) -> None:
    trusting = replace(PARAMETERS, check_effort_kind=False)
    result = replay(recorded(swing(effort=effort)), MODEL, trusting)
    if not says:
        assert result.warnings == ()
        return
    # A thousandfold effort is implausible besides, so that there is no verdict.
    warnings = [w for w in result.warnings if w != "no verdict at any time"]
    assert warnings[0].startswith("do not trust the events")
    assert re.search(says, warnings[1])


def test_the_command_refuses_a_kind_of_effort_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits as for any wrong input, in the words of the node; the user may overrule it."""
    arm = Model.from_urdf(arm7_urdf())
    q, v = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2]), np.zeros(arm.nv)
    noise = 0.01 * np.random.default_rng(2).normal(size=(500, arm.nv))
    free = [
        JointMessage(0.01 * k, 0.01 * k, arm.joint_names, q, v, effort)
        for k, effort in enumerate(noise, 1)
    ]
    path = write_csv(tmp_path / "free.csv", free)
    command = ["replay", str(path), "--urdf", "arm7"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "free.csv: effort of joint_2 is " in said
    assert "where gravity alone requires -34.6 N·m: this driver subtracts gravity; set" in said
    assert main([*command, "--trust-effort-kind"]) == 0
    assert "this driver subtracts gravity" in capsys.readouterr().out
    config = tmp_path / "kind.yaml"
    for parameters in ("check_effort_kind: false", "effort_kind: torque_without_gravity"):
        config.write_text(f"contact_detector:\n  ros__parameters: {{{parameters}}}\n")
        assert main([*command, "--config", str(config)]) == 0


def test_another_driver_after_a_jump_of_the_clock_is_judged_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first half fits ``effort_kind``; the driver started afterwards subtracts gravity."""
    arm = Model.from_urdf(arm7_urdf())
    q, v = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2]), np.zeros(arm.nv)
    efforts = 0.01 * np.random.default_rng(2).normal(size=(1000, arm.nv))
    efforts[:500] += gravity_torque(arm, q)
    rows = [
        JointMessage(t - (50.0 if k >= 500 else 0.0), t, arm.joint_names, q, v, efforts[k])
        for k, t in enumerate(100.0 + 0.01 * np.arange(1000))
    ]
    path = write_csv(tmp_path / "restarted.csv", rows)
    assert main(["replay", str(path), "--urdf", "arm7"]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "since a pause or jump of the clock, effort of joint_2 is" in said
    assert "this driver subtracts gravity" in said


@pytest.mark.parametrize("duration", [4.0, 1.5, 0.5])
@pytest.mark.parametrize("declared", ["torque", "torque_without_gravity"])
def test_effort_that_is_not_measured_is_said_to_be(declared: str, duration: float) -> None:
    """Zeros on all joints are no torque without gravity: nothing is measured."""
    zeros = swing(effort=lambda q, tau: 0.0 * tau, duration=duration)
    parameters = replace(PARAMETERS, effort_kind=declared)
    result = replay(recorded(zeros), MODEL, parameters)
    assert any("effort not measured: it is exactly zero" in text for text in result.warnings)
    assert not any("gravity" in text for text in result.warnings)
    # No effort has ever shown that anything is measured.
    assert result.valid_fraction == 0.0
    assert result.invalid["effort not measured"] > 0.9 * duration
    assert result.events == ()


def test_the_command_says_that_effort_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path / "zeros.csv", swing(effort=lambda q, tau: 0.0 * tau))
    urdf = tmp_path / "two.urdf"
    urdf.write_text(URDF)
    assert main(["replay", str(path), "--urdf", str(urdf)]) == 1
    assert "effort not measured" in capsys.readouterr().err


def test_effort_that_is_short_is_judged_by_gravity() -> None:
    """Too little for anything but the ratio of efforts to gravity."""
    efforts = swing(effort=lambda q, tau: -tau, duration=1.0)
    result = replay(recorded(efforts), MODEL, PARAMETERS)
    assert "sign looks reversed" in result.warnings[1]


@pytest.mark.parametrize(
    ("effort", "declared"),
    [
        (lambda q, tau: 0.09 * tau, {"effort_kind": "current", "effort_gain": (1 / 0.09,)}),
        (
            lambda q, tau: tau - gravity_torque(MODEL, q),
            {"effort_kind": "torque_without_gravity"},
        ),
    ],
    ids=["current", "without gravity"],
)
def test_effort_that_is_as_declared_is_not_complained_of(
    effort: Efforts, declared: dict[str, Any]
) -> None:
    result = replay(recorded(swing(effort=effort)), MODEL, replace(PARAMETERS, **declared))
    assert result.warnings == ()
    assert [fit.ratio for fit in result.efforts] == pytest.approx([1.0, 1.0], abs=0.2)


def test_a_collision_is_no_wrong_effort() -> None:
    """Eight times the gravity torque for half of the time, and not a word about the unit."""
    messages = swing([(1.0, 3.0, 60.0)])
    told = replay(recorded(messages, ((START + 1.0, START + 3.0),)), MODEL, PARAMETERS)
    assert told.warnings == ()
    untold = replay(recorded(messages), MODEL, PARAMETERS)
    assert [fit.complaint for fit in untold.efforts] == ["", ""]
    assert any("arm_elbow 5" in w for w in untold.warnings), "50 % of the time above threshold"


def test_a_recording_shorter_than_a_period_of_the_check_counts() -> None:
    """Samples in the first 20 ms were never used."""
    model = Model.from_urdf(arm7_urdf())
    q = np.full((1, 7), 0.3)
    check = EffortCheck(model, DetectorParameters())
    check.add(np.zeros(1), q, gravity_torque(model, q))
    loaded = [fit for fit in check.fits() if fit.gravity > 1.0]
    assert loaded
    assert all(fit.ratio == pytest.approx(1.0) for fit in loaded)
