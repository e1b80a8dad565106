"""``rbd-control calibrate`` on efforts that no arm has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.simulation import arm7_urdf

Array = NDArray[np.float64]

RATE, SECONDS = 100.0, 25.0
BAD = 1
"""Index of the joint whose effort is wrong: joint_2, which carries the arm."""


def column(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def changed(effort: Array) -> Array:
        effort = effort.copy()
        effort[:, BAD] = change(effort[:, BAD])
        return effort

    return changed


WRONG: dict[str, tuple[Callable[[Array], Array], str]] = {
    "dead": (column(np.zeros_like), "effort of joint_2 is not measured: exactly zero throughout"),
    "constant": (
        column(lambda effort: np.full_like(effort, 3.0)),
        "effort of joint_2 is not measured: constant at 3",
    ),
    "sign-flipped": (
        column(lambda effort: -effort),
        "effort: reversed: joint_2 -1 times the model's torque",
    ),
    "absurd": (column(lambda effort: 3e12 * effort), "2500 x too large (effort of joint_2)"),
    "implausible": (
        column(lambda effort: 3e4 * effort),
        "effort or speed of joint 'joint_2' is implausible in 100% of the samples",
    ),
    "another unit": (
        column(lambda effort: 5.0 * effort),
        "another unit than N·m, or than N of a prismatic joint: joint_2 5 times the model's torque",
    ),
    "all dead": (np.zeros_like, "effort is not measured on any joint: exactly zero throughout"),
}
"""Changes of the efforts, and the reason with which ``calibrate`` refuses them."""


def recording(
    path: Path, change: Callable[[Array], Array], shown: Callable[[Array], Array] = np.copy
) -> None:
    """Write a lively motion of the arm that ships, with changed efforts and velocities."""
    model = Model.from_urdf(arm7_urdf())
    t = np.arange(0.0, SECONDS, 1.0 / RATE)[:, None]
    w = 2.0 * np.pi / np.array([4.6, 3.8, 5.3, 3.3, 2.9, 2.6, 2.3])
    q = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0]) + 0.4 * np.sin(w * t)
    v, a = 0.4 * w * np.cos(w * t), -0.4 * w**2 * np.sin(w * t)
    noise = np.random.default_rng(0).normal(scale=0.02, size=q.shape)
    effort = change(inverse_dynamics(model, q, v, a) + 0.5 * np.tanh(v / 0.05) + noise)
    names = [
        f"{field}/{j}" for field in ("position", "velocity", "effort") for j in model.joint_names
    ]
    np.savetxt(
        path,
        np.hstack((t, q, shown(v), effort)),
        fmt="%.17g",
        delimiter=",",
        header=",".join(["time", *names]),
        comments="",
    )


@pytest.mark.parametrize("kind", [*WRONG])
def test_efforts_that_no_arm_has_are_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the joint, and no file is written; the tables would name all joints."""
    change, reason = WRONG[kind]
    file, out = tmp_path / "motion.csv", tmp_path / "arm.yaml"
    recording(file, change)
    assert main(["calibrate", str(file), "--urdf", "arm7", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"rbd-control: {file}: ")
    assert reason in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_the_motion_itself_is_accepted(tmp_path: Path) -> None:
    """Only the changed efforts are the reason of the refusals."""
    file, out = tmp_path / "motion.csv", tmp_path / "arm.yaml"
    recording(file, np.copy)
    assert main(["calibrate", str(file), "--urdf", "arm7", "--out", str(out)]) == 0
    assert out.exists()


@pytest.mark.parametrize(("shown", "says"), [(np.negative, "wrong sign")], ids=["sign"])
def test_velocities_that_disagree_with_the_positions_are_refused(
    shown: Callable[[Array], Array], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The efforts would seem reversed, and be blamed."""
    file, out = tmp_path / "motion.csv", tmp_path / "arm.yaml"
    recording(file, np.copy, shown)
    assert main(["calibrate", str(file), "--urdf", "arm7", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "velocity" in said
    assert not out.exists()
