"""The weakest push that is promised is the weakest that the detector finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from free_motion import lively_motion

from rbd_control.check import weakest_pushes_in
from rbd_control.check.weakest_push import SAMPLES_PER_PUSH, PushSamples, weakest_pushes
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import Calibration, RecordedMotion, calibrate
from rbd_control.simulation import SimulatedArm

PUSH, PERIOD, FIRST, LAST = 0.3, 0.65, 1.5, 23.0
"""Length of a push, time between two starts, first start, and end of the pushes [s]."""


CHANCE = 0.5 / np.sqrt((LAST - FIRST) / PERIOD)
"""Standard deviation of the share that is found if each push is found with probability one half.

Friction amplifies rounding errors, so that the same push may be found in one build only."""


@pytest.fixture(scope="module")
def free(model: Model) -> RecordedMotion:
    return lively_motion(model, 24.0)


@pytest.fixture(scope="module")
def calibration(free: RecordedMotion, model: Model) -> Calibration:
    return calibrate([free], model)


def share_found(
    model: Model, parameters: DetectorParameters, arm: Model, link: str, force: np.ndarray
) -> float:
    """Return the share of pushes with a force (3,) [N], to and fro, that a detector finds."""
    begun: list[float] = []

    def act(simulated: SimulatedArm, t: float) -> None:
        if FIRST + PERIOD * len(begun) <= t < LAST:
            begun.append(t)
            simulated.push(link, force if len(begun) % 2 else -force, duration=PUSH)

    m = lively_motion(arm, LAST + 1.0, act=act)
    detector = ContactDetector(model, parameters)
    found = detector.update_block(m.t + 1.0, m.q, m.v, m.tau)
    # The first sample of the motion is one period after the start of the simulation.
    t = m.t + np.median(np.diff(m.t))
    hit = [found.contact[(t > b) & (t < b + PUSH + 0.02)].any() for b in begun]
    return float(np.mean(hit))


@pytest.mark.parametrize(
    ("kind", "link", "axis"), [("calibrated", "link_5", 1), ("defaults", "link_7", 0)]
)
def test_within_thirty_per_cent(
    kind: str, link: str, axis: int, free: RecordedMotion, calibration: Calibration, model: Model
) -> None:
    """The median over the poses is where half of the pushes are found: fewer at 0.7 of it."""
    if kind == "calibrated":
        parameters: DetectorParameters = calibration.parameters
        known = calibration.parameters.corrected(model)
    else:
        # Friction is known, so that it neither helps a push nor hides it.
        names = [name for name in DetectorParameters.names() if name.startswith("friction")]
        values = {name: getattr(calibration.parameters, name) for name in names}
        parameters, known = replace(DetectorParameters(), **values), model
    # The promise holds once the friction of the day is known, which takes a minute of motion.
    parameters = replace(parameters, follow_friction=False)
    pushes = weakest_pushes_in(known, parameters, [free])
    promised = next(push for push in pushes if push.link == link).axes[axis]
    force = np.eye(3)[axis] * promised
    assert share_found(known, parameters, model, link, 0.7 * force) < 0.5 + CHANCE
    assert share_found(known, parameters, model, link, 1.3 * force) > 0.5 - CHANCE


def test_an_uncertain_gain_doubles_the_promised_push(free: RecordedMotion, model: Model) -> None:
    """Two standard errors of 25 % leave half of the torque; thresholds of the motion are equal."""
    sure = DetectorParameters(covered_error=(1e3,))
    doubtful = replace(sure, effort_gain_error=(0.25,))
    pushes = [weakest_pushes(model, one, free.q, free.v) for one in (sure, doubtful)]
    for one, other in zip(*pushes, strict=True):
        assert other.axes == pytest.approx(tuple(2.0 * force for force in one.axes))


def test_all_pushes_have_their_full_length(free: RecordedMotion, model: Model) -> None:
    """Near 167 Hz they lasted half as long, as the number of samples depended on rounding."""
    period = 0.006
    t = np.arange(free.t[0], free.t[-1], period)
    columns = (
        np.stack([np.interp(t, free.t, column) for column in x.T], axis=1)
        for x in (free.q, free.v, free.tau)
    )
    # So slow that its response grows throughout the push.
    slow = DetectorParameters(observer_gain=(10.0,))
    looks = PushSamples.of(model, slow, [RecordedMotion("resampled", t, *columns)])
    assert looks is not None
    assert looks.q.shape[1] == SAMPLES_PER_PUSH
    # The last sample is at most a period before the end of the push.
    observer = slow.make_observer(model)
    observer.rise(period, int(1.06 * PUSH / period) + 2)
    reached = looks.risen[:, -1, 0]
    assert reached.min() >= observer.risen(PUSH - 1.01 * period)[0]
    assert reached.max() <= observer.risen(PUSH + 1e-6)[0]


def test_a_lower_rate_than_in_the_calibration_needs_stronger_pushes(
    free: RecordedMotion, model: Model
) -> None:
    """The promise is for the thresholds that the detector has at this rate."""
    still = DetectorParameters(contact_threshold=(2.0,), torque_noise=(0.5,))
    rate = 1.0 / float(np.median(np.diff(free.t)))
    before, after = (
        weakest_pushes_in(model, replace(still, calibrated_rate=factor * rate), [free])[-1].best
        for factor in (1.0, 4.0)
    )
    assert before < after < 3.0 * before
