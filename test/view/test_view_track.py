"""Display of a recording: no peak is lost, and the verdicts are those of replay."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from robots import RECORDINGS, panda_arm_urdf
from test_recording import write_bag

from rbd_control.estimation import BlockDetection, ContactEvent
from rbd_control.joint_states import JointMessage, SampleBlock
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay
from rbd_control.view import sources as track_module
from rbd_control.view.scene import Scene
from rbd_control.view.sources import (
    MOST_SHOWN,
    STEP,
    TRACKING_ERROR,
    RecordingSource,
    Track,
    TrackRecorder,
    tracking_errors,
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
    assert track.at(0.2).verdict == "free"


def test_positions_between_two_frames_are_interpolated() -> None:
    track = recorded(np.zeros((1000, 2)))
    for time in (0.0, 0.1234, 0.5, track.duration):
        q = track.at(time).q
        assert q is not None
        # float32 keeps seven digits.
        assert q[0] == pytest.approx(time, abs=1e-6)
    wrapped = replace(track, q=np.where(track.times[:, None] > 0.5, -3.0, 3.0).astype("f4"))
    at = [float(wrapped.at(t).q[0]) for t in np.arange(0.4, 0.6, 0.002)]  # type: ignore[index]
    assert set(at) == {3.0, -3.0}


def test_a_long_recording_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track_module, "MOST_FRAMES", 200)
    residual = np.zeros((20_000, 2))
    residual[13_579, 1] = -12.0
    track = recorded(residual)
    assert len(track.times) <= 400
    assert (np.diff(track.times) > 0.0).all()
    assert track.ratios.min() == pytest.approx(-3.0)


def test_the_chart_has_few_points_and_all_peaks() -> None:
    residual = np.zeros((40_000, 2))
    residual[15_000, 0] = 30.0
    track = recorded(residual, 0.0005)
    dense = replace(track, times=0.5 * track.times)  # 1200 frames in the 10 s of the chart
    times, ratios = dense.history(9.9)
    assert MOST_SHOWN // 2 < len(times) <= MOST_SHOWN + 1
    assert ratios.max() == pytest.approx(10.0)
    assert times[-1] <= 9.9
    assert track.history(0.0)[0].size <= 1


def test_the_force_follows_the_residual_of_its_joint() -> None:
    residual = np.zeros((1000, 2))
    residual[400:500, 1], residual[500:600, 1] = 8.0, 4.0
    event = ContactEvent(
        1, "release", "contact", 0.4, 0.4, 0.6, "b", "link", 8.0, np.array([0.0, 0.0, 10.0])
    )
    track = replace(recorded(residual), events=(event,))
    assert track.at(0.3).touch is None
    for time, newtons in ((0.45, 10.0), (0.55, 5.0)):
        touch = track.at(time).touch
        assert touch is not None
        assert touch.force is not None
        assert touch.force[2] == pytest.approx(newtons)
    assert track.at(0.45).current == 0
    assert track.at(0.65).touch is None


def test_tracking_errors_are_shown_where_the_recording_has_them(tmp_path: Path) -> None:
    start = 1000.0
    messages = [
        JointMessage(start + 0.001 * k, start + 0.001 * k, JOINTS, [0.001 * k, -0.002 * k], [], [])
        for k in range(500)
    ]
    bag = write_bag(tmp_path / "bag", messages, topic=TRACKING_ERROR)
    times, errors = tracking_errors(read_recording(bag, TRACKING_ERROR), start)
    assert len(times) < 40  # a frame every 1/60 s
    # Stamps since the epoch have seven digits after the point.
    assert errors == pytest.approx(2.0 * times, abs=1e-6)
    track = replace(recorded(np.zeros((2000, 2))), errors=(times, errors))
    assert track.at(0.3).tracking_error == pytest.approx(0.6, abs=2.0 * STEP)
    assert math.isnan(track.at(1.9).tracking_error)  # the last one is long ago
    assert math.isnan(recorded(np.zeros((100, 2))).at(0.05).tracking_error)


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
    assert track.at(1.0).verdict == "free"
    assert track.at(1.0).touch is None
    assert np.nanmax(np.abs(track.ratios)) > 1.0


def test_without_a_parameter_file_residuals_are_shares_of_the_default_thresholds(
    tmp_path: Path,
) -> None:
    urdf = tmp_path / "panda.urdf"
    urdf.write_text(panda_arm_urdf())
    robot, parameters = configured_robot(str(urdf), None, {})
    recording = read_recording(RECORDINGS / "push20_link7")
    track = RecordingSource.of(recording, Scene(robot.model, (), ()), parameters).track
    known = track.ratios[np.isfinite(track.ratios)]
    assert known.size > 0.5 * track.ratios.size
    # The push of 20 N is over the threshold of a joint, and no residual is a hundred times it.
    assert 1.0 < np.abs(known).max() < 100.0
