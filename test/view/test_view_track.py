"""Display of a recording: no peak is lost, and the verdicts are those of replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from robots import RECORDINGS, panda_arm_urdf

from rbd_control.estimation import BlockDetection
from rbd_control.joint_states import SampleBlock
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay
from rbd_control.view.scene import Scene
from rbd_control.view.sources import (
    STEP,
    RecordingSource,
    Track,
    TrackRecorder,
)

CONFIG = Path(__file__).resolve().parents[2] / "config" / "panda_mujoco.yaml"
JOINTS = ("a", "b")


def detection(residual: np.ndarray, level: np.ndarray, reason: np.ndarray) -> BlockDetection:
    none = np.zeros(len(level), dtype=int)
    threshold = np.broadcast_to([3.0, 4.0], residual.shape)
    return BlockDetection(residual, reason, level, (), none, none - 1, threshold)


def recorded(residual: np.ndarray, period: float = 0.001, **columns: np.ndarray) -> Track:
    """Return the track of a recording in blocks of 100 samples."""
    k = len(residual)
    times: NDArray[np.float64] = period * np.arange(k, dtype=np.float64)
    q = np.column_stack([times, 0.0 * times])
    level = columns.get("level", np.zeros(k, dtype=int))
    reason = columns.get("reason", np.zeros(k, dtype=int))
    recorder = TrackRecorder(JOINTS)
    for i in range(0, k, 100):
        part = slice(i, i + 100)
        block = SampleBlock(times[part], q[part], np.ones((len(q[part]), 2)), None)
        recorder.add(times[part], block, detection(residual[part], level[part], reason[part]))
    return recorder.track(())


def test_no_peak_between_two_frames_is_lost() -> None:
    residual = np.zeros((1000, 2))
    residual[505] = [9.0, -8.0]  # one sample of a thousand
    track = recorded(residual)
    assert len(track.times) < 1000
    assert track.ratios.max() == pytest.approx(3.0)
    assert track.ratios.min() == pytest.approx(-2.0)


def test_a_short_flag_and_a_gap_without_verdict_are_shown() -> None:
    level, reason = np.zeros(1000, dtype=int), np.zeros(1000, dtype=int)
    level[300] = 2
    reason[600:700] = 1
    track = recorded(np.zeros((1000, 2)), level=level, reason=reason)
    verdicts = [track.at(t).verdict for t in np.arange(0.0, 1.0, STEP / 2)]
    assert "collision" in verdicts
    assert track.at(0.65).verdict == "no verdict"
    ratios = track.at(0.65).ratios
    assert ratios is not None
    assert np.isnan(ratios).all()
    assert track.at(0.2).verdict == "no contact"


def test_the_track_shows_the_results_of_replay(tmp_path: Path) -> None:
    urdf = tmp_path / "panda.urdf"
    urdf.write_text(panda_arm_urdf())
    robot, parameters = configured_robot(str(urdf), CONFIG, {})
    scene = Scene(robot.model, (), ())
    recording = read_recording(RECORDINGS / "push20_link7")
    source = RecordingSource.of(recording, scene, parameters)
    track, result = source.track, source.result
    again = replay(recording, robot.model, parameters).events
    assert [e.to_json() for e in result.events] == [e.to_json() for e in again]
    assert track.errors[0].size == 0
    assert track.duration == pytest.approx(result.duration, abs=STEP)
    (event,) = track.events
    touched = track.at(1.7)
    assert touched.verdict == "contact"
    assert touched.touch is not None
    assert touched.touch.link == "panda_link7" == event.link
    assert track.at(1.0).verdict == "no contact"
    assert track.at(1.0).touch is None
    assert np.nanmax(np.abs(track.ratios)) > 1.0
