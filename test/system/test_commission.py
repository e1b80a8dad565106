"""``rbd-control commission`` beside an arm: nothing moves without a yes, and a contact stops it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from trajectory_msgs.msg import JointTrajectory

from rbd_control.cli.main import main
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import gravity_torque
from rbd_control.excitation import trajectory_yaml

from .bringup import PATIENCE, BringUp
from .detector_setting import MODEL, POSTURE, PUSH, resting
from .probe import Probe, Source

TOPIC = "joint_trajectory_controller/joint_trajectory"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a commission, with a motion of a minute."""
    positions = np.array([POSTURE, POSTURE + 0.2, POSTURE])
    still = np.zeros_like(positions)
    motion = TrajectoryArrays(positions, np.array([0.0, 30.0, 60.0]), still, still)
    (tmp_path / "motion.yaml").write_text(trajectory_yaml(MODEL.joint_names, motion, "A motion."))
    return tmp_path


@pytest.fixture
def load() -> np.ndarray:
    """Return a torque that is added to the efforts of the arm, and may be changed."""
    return np.zeros(MODEL.nv)


@pytest.fixture
def arm(probe: Probe, load: np.ndarray) -> Iterator[Source]:
    """Yield an arm at rest that measures with noise."""
    source, random = probe.stream(resting()), np.random.default_rng(0)
    weight = gravity_torque(MODEL, POSTURE)

    def shake() -> None:
        source.position = POSTURE + 1e-5 * random.normal(size=MODEL.nv)
        source.velocity = 1e-4 * random.normal(size=MODEL.nv)
        source.effort = weight + 0.05 * random.normal(size=MODEL.nv) + load

    repetition = probe.every(0.005, shake)
    yield source
    probe.end_repetition(repetition)
    if source.publishers:
        probe.end_stream(source)


def commission(bring_up: BringUp, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command, whose input the test writes."""
    command = [sys.executable, "-m", "rbd_control.cli.main", "commission", "--urdf", "arm7"]
    command += ["--folder", str(folder), "--out", str(folder / "arm.yaml"), *words]
    return subprocess.Popen(
        command,
        env=bring_up.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def slowly(bring_up: BringUp, folder: Path) -> subprocess.Popen[str]:
    """Start the slow motion, confirmed."""
    process = commission(bring_up, folder, "--step", "slow", "--speed", "1")
    assert process.stdin is not None
    process.stdin.write("yes\n")
    process.stdin.flush()
    return process


def test_nothing_moves_without_a_yes_and_contact_and_silence_stop_the_arm(
    bring_up: BringUp, probe: Probe, folder: Path, arm: Source, load: np.ndarray
) -> None:
    """The arm stands all the time; the trajectories that it gets are the motion and the stop."""
    heard = probe.listen(JointTrajectory, TOPIC)
    output, _ = commission(bring_up, folder, "--step", "rest", "slow").communicate("no\n", PATIENCE)
    assert "not confirmed: the arm has not moved; go on with --step slow" in output
    assert "the arm moves now, for 602 s." in output
    assert "next," not in output  # of the check of the arm at rest
    assert not heard
    process = slowly(bring_up, folder)
    probe.wait(lambda: len(heard) == 1, "the motion was not sent")
    assert len(heard[0].points) == 3
    load[:] = -PUSH
    probe.wait(lambda: len(heard) == 2, "the contact did not stop the arm")
    (stop,) = heard[1].points
    np.testing.assert_allclose(stop.positions, POSTURE, atol=1e-3)
    assert not np.any(stop.velocities)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "stopped at slow: contact: joint_" in output
    # Silent for 0.5 s: it was sent back to its last known position, as fast as it had left it.
    load[:] = 0.0
    process = slowly(bring_up, folder)
    probe.wait(lambda: len(heard) == 3, "the motion was not sent again")
    arm.on = False
    probe.wait(lambda: len(heard) == 4, "the silence did not stop the arm")
    (stop,) = heard[3].points
    assert np.min(np.array(stop.positions) - POSTURE) > 0.4 * 0.2 / 30.0
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "silent" in output


def test_a_missing_description_is_named_before_the_wait_for_the_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "commission"
    words = ["commission", "--urdf", str(tmp_path / "no.urdf"), "--folder", str(folder)]
    assert main(words) == 2
    assert "no.urdf: " in capsys.readouterr().err
    assert not folder.exists()
