"""Calibration uses only the samples that the detector judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from damage import sound

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.estimation.validity import IN_MOTION
from rbd_control.identification import Calibration, RecordedMotion, calibrate
from rbd_control.identification.motion import judged_samples

PARAMETERS = DetectorParameters(observer_gain=(50.0,))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(sound.URDF)


@pytest.fixture(scope="module")
def clean() -> RecordedMotion:
    swing = sound.swing(22.0, 100.0)
    return RecordedMotion("log", swing.t - swing.t[0], swing.q, swing.v, swing.tau)


def calibrated(motion: RecordedMotion, model: Model) -> Calibration:
    """Calibrate with a fixed gain, which makes the thresholds comparable."""
    return calibrate([motion], model, PARAMETERS, keep_gain=True)


def with_jumps(motion: RecordedMotion) -> RecordedMotion:
    """Return a motion with a wrong position of the elbow in one of a hundred samples."""
    q = motion.q.copy()
    q[50::100, 1] += 1.0
    return replace(motion, q=q)


def with_repeats(motion: RecordedMotion) -> RecordedMotion:
    """Return a motion in which a driver publishes every sample twice."""
    t = motion.t.repeat(2)
    t[1::2] += 0.5 * (motion.t[1] - motion.t[0])
    return RecordedMotion(
        "log", t, *(x.repeat(2, axis=0) for x in (motion.q, motion.v, motion.tau))
    )


def test_samples_that_the_detector_drops_raise_no_threshold(
    clean: RecordedMotion, model: Model
) -> None:
    expected = np.array([joint.threshold for joint in calibrated(clean, model).joints])
    found = calibrated(with_jumps(clean), model)
    np.testing.assert_allclose([joint.threshold for joint in found.joints], expected, rtol=0.1)
    dropped = [note for note in found.notes if "the detector drops them" in note]
    assert dropped == [
        "log: 22 of 2200 samples are left out because the detector drops them: implausible jump 22"
    ]


def test_repeated_samples_raise_no_threshold(clean: RecordedMotion, model: Model) -> None:
    """The efforts of the repeated samples are fresh, and then far off."""
    repeated = with_repeats(clean)
    fast = np.abs(repeated.v[1::2]).max(axis=1) > IN_MOTION
    repeated.tau[1::2][fast] += 5.0
    expected, found = calibrated(clean, model), calibrated(repeated, model)
    assert [joint.threshold for joint in found.joints] == [
        joint.threshold for joint in expected.joints
    ]
    assert not any("drops" in note for note in found.notes)


def test_motions_are_cut_where_the_detector_restarts(clean: RecordedMotion, model: Model) -> None:
    q = clean.q + np.where(clean.t[:, None] < 10.0, 0.0, [0.0, 1.0])
    parts, notes = judged_samples([replace(clean, q=q)], model, PARAMETERS)
    assert [part.t[0] for part in parts] == [0.0, pytest.approx(10.02)]
    assert not notes  # two samples are dropped
    whole, notes = judged_samples([clean], model, PARAMETERS)
    assert not notes
    np.testing.assert_array_equal(whole[0].q, clean.q)


def test_repeated_efforts_are_left_out_from_their_beginning(
    clean: RecordedMotion, model: Model
) -> None:
    """The detector notices them after 5 s, in which they would raise the thresholds."""
    frozen = (clean.t > 6.0) & (clean.t < 14.0)
    tau = np.where(frozen[:, None], clean.tau[frozen][0], clean.tau)
    parts, notes = judged_samples([replace(clean, tau=tau)], model, PARAMETERS)
    assert [part.t[-1] < 6.1 or part.t[0] >= 13.9 for part in parts] == [True, True]
    (note,) = notes
    assert note.startswith("log: 8.0 s are left out because the efforts of all joints repeat")
