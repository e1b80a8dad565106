"""Replay of efforts that are no torque: the warnings name the cause and the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from swinging_arm import (
    write_csv,
)

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.joint_states import JointMessage
from rbd_control.simulation import arm7_urdf


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
