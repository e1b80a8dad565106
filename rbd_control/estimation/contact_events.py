"""Back-dated onset of a contact, estimated from the rise of the residual."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled
from rbd_control.estimation.decision import jolt_doubt, residual_doubt
from rbd_control.estimation.detection import ContactEvent
from rbd_control.estimation.detector_state import (
    COLLISION,
    HISTORY,
    LEVELS,
    ONSET_WINDOW,
    Memory,
    Settings,
    count_since,
    earlier_residual,
    recent_period,
    recent_residuals,
)
from rbd_control.estimation.isolation import Isolation, LinkIsolation, found
from rbd_control.estimation.observers import Observer

LEAST = 20
"""Smallest number of samples from which the correlation of the noise is estimated."""
MOST_ALIKE = 30.0
"""Largest number of successive samples of correlated noise that count as one."""


class Onset(NamedTuple):
    """Estimated onset of a contact."""

    stamp: float
    """The most likely start [s], the time of a sample."""
    uncertainty: float
    """Standard deviation of the onset [s]; NaN with fewer than four samples."""


@compiled
def _explained(stamps, step, response, centred, out):
    """Write the sum of squares of the residuals that each candidate onset explains.

    With residuals y and step response x both centred, the squared error with the best offset and
    height of a joint is |y|² - (x . y)² / |x|²; the mean of x cancels in x . y.
    """
    k, n = centred.shape
    total, product, square = np.empty(n), np.empty(n), np.empty(n)
    for c in range(out.shape[0]):
        total[:] = product[:] = square[:] = 0.0
        for j in range(c + 2, k):
            after = (stamps[j] - stamps[c + 1]) / step
            cell = min(int(after), response.shape[0] - 2)
            share = min(after - cell, 1.0)
            for i in range(n):
                rise = response[cell, i] + share * (response[cell + 1, i] - response[cell, i])
                total[i] += rise
                product[i] += rise * centred[j, i]
                square[i] += rise * rise
        out[c] = 0.0
        for i in range(n):
            out[c] += product[i] ** 2 / (square[i] - total[i] ** 2 / k)


def estimate_onset(
    stamps: np.ndarray,
    residuals: np.ndarray,
    observer: Observer,
    weight: np.ndarray,
    stride: int = 1,
) -> Onset:
    """Return the most likely start of a contact that was just detected.

    A torque that steps up at ``t0`` leaves the observer as ``r = a + b h(t - t0)``, where ``h`` is
    its step response, zero before ``t0``. For each sample as candidate ``t0`` the offset ``a`` and
    height ``b`` of every joint are fitted by least squares; the result is the candidate with the
    smallest weighted squared error over all joints. This removes the delay of the flag, which is
    the time that the residual needs to reach its threshold.

    Errors of model and friction pass the filter as a slow drift, which over many samples looks more
    like a step than the few samples since a collision. Therefore ``r`` and ``h`` are replaced by
    their changes, ``r_k - exp(-K dt) r_(k-1)``, the input of a first-order filter with the gain K
    of the observer (zero for a Kalman observer).

    The uncertainty is the standard deviation over the candidates, with likelihoods from their
    squared errors and the noise variance of the best candidate. Samples of correlated noise count
    as fewer: the correlation of successive samples before the onset says how many are like one.

    Args:
        stamps: times of the last samples up to the detection, (k,) [s], increasing.
        residuals: r at these times, (k, nv) [N·m or N].
        observer: the observer of these residuals.
        weight: one over the expected noise of each joint, (nv,) [1/(N·m) or 1/N].
        stride: number of samples of the observer from one of these times to the next.

    Returns:
        The onset; the last stamp, with an unknown uncertainty, for fewer than four samples.
    """
    k = stamps.size
    if k < 4:
        return Onset(float(stamps[-1]), np.nan)
    step, response = observer.rise(float(np.median(np.diff(stamps))) / stride, stride * k)
    kept = np.exp(-observer.design["gain"] * stride * step)
    y = _changes(residuals, kept) * weight
    centred = y - y.mean(axis=0)
    response = _changes(response, kept, stride)
    # Candidates leave a sample before for the offset and one after for the height.
    explained = np.empty(k - 2)
    _explained(stamps, step, response, centred, explained)
    best = int(np.argmax(explained))
    error = max(float((centred**2).sum() - explained[best]), 1e-300)
    alike = _alike(centred[: best + 1])
    variance = alike * error / centred.size
    likelihood = np.exp((explained - explained[best]) / (2.0 * variance))
    likelihood /= likelihood.sum()
    candidates = stamps[1:-1]
    spread = likelihood @ (candidates - likelihood @ candidates) ** 2
    # An onset between two samples is indistinguishable from an onset at a sample.
    return Onset(float(candidates[best]), float(np.sqrt(spread + (stride * step) ** 2 / 12.0)))


def _changes(signal: np.ndarray, kept: np.ndarray, stride: int = 1) -> np.ndarray:
    """Return ``s_k - kept s_(k-stride)`` of a signal (k, nv), constant before its first sample."""
    before = np.concatenate([np.repeat(signal[:1], stride, axis=0), signal[:-stride]])
    return np.asarray(signal - kept * before[: len(signal)])


def _alike(noise: np.ndarray) -> float:
    """Return how many successive samples of a noise (k, nv) have the information of one."""
    if len(noise) < LEAST:
        return MOST_ALIKE
    noise = noise - noise.mean(axis=0)
    correlation = float((noise[1:] * noise[:-1]).sum() / max((noise**2).sum(), 1e-300))
    return min(max((1.0 + correlation) / max(1.0 - correlation, 1e-3), 1.0), MOST_ALIKE)


SHOWN = 0.99
"""Share of a step that the observer shows within the time that is searched for the onset."""
TIME_CONSTANT = 1.0 - math.exp(-1.0)
"""Share of a step that the observer shows within its time constant."""
STILL_RISING = 0.2
"""Change of a residual within a time constant, as a share of the residual, above which the force
has not settled. After a step a first-order residual falls below it at 89 % of its final value."""
NOISY = 2.0
"""Change of a residual within a time constant that is noise, in standard deviations of the
residual."""

NEAR_PEAK = 0.9
"""Fraction of the highest ratio of residual to threshold from which a sample counts as the peak."""


class ContactEvents:
    """Creates the onset and release events of one detector, one contact after the other.

    Call :meth:`use` before the first contact. To isolate a contact means to estimate its link,
    point and force from the residuals, the estimated external joint torques.

    Args:
        memory: memory of the detector; read only.

    Attributes:
        open: onset event of the present contact with its latest estimates; None without contact.
        now: the last isolation of the present contact; None without contact.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._count = 0
        self._peak = np.zeros(memory.joint.size)
        self._height = 0.0  # ratio of this peak to the threshold
        self._is_peak_settled = False  # whether the force of this peak has settled
        self._time_constant = 1  # of the observer, as a number of samples
        self._has_risen = False  # whether the torque was there before the first residual
        self._average = 0  # number of the average of the isolation to which the peak belongs
        self.open: ContactEvent | None = None
        self.now: Isolation | None = None

    def use(
        self, model: Model, observer: Observer, settings: Settings, isolation: LinkIsolation
    ) -> None:
        """Apply another model or other parameters; an open contact stays open.

        Link and force of its event change only when the residual again comes near its peak.

        Args:
            model: the robot.
            observer: the observer of the residuals.
            settings: settings of the compiled decision.
            isolation: estimator of link, point and force.
        """
        self._model, self._observer = model, observer
        self._settings, self._isolation = settings, isolation
        self._average = 0

    def force(self, residual: np.ndarray) -> np.ndarray | None:
        """Return the force on the touched link for another residual of the present contact.

        Args:
            residual: external joint torques, (nv,) [N·m or N].

        Returns:
            The force at the link and place of the last isolation, (3,) world axes [N]; None without
            contact, and where the force is not observable.
        """
        return None if self.now is None else self._isolation.force(residual)

    def is_settled(self, residual: np.ndarray, age: int = 0) -> bool:
        """Return whether the force that follows from a residual of the present contact has settled.

        It has not if the residual of a joint has changed, within the time constant of the observer
        before it, by more than :data:`STILL_RISING` of its size and by more than :data:`NOISY`
        standard deviations: the observer, or the force itself, still rises or falls.

        Args:
            residual: (nv,) [N·m or N].
            age: number of valid samples since this residual.
        """
        before = earlier_residual(self._memory, age + self._time_constant)
        if before is None:
            return False
        usual = np.maximum(STILL_RISING * np.abs(residual), NOISY * self._isolation.noise)
        return bool((np.abs(residual - before) <= usual).all())

    def begin(self, stamp: float, q: np.ndarray) -> ContactEvent:
        """Open the contact that is detected with the present sample, and return its onset event.

        Args:
            stamp: time of this sample, which is the time of detection [s]; the estimated onset is
                not later.
            q: joint positions at this sample, (nq,) [rad or m].
        """
        joint = self._settings.joint
        period, window = recent_period(self._memory), ONSET_WINDOW
        if period > 0.0:
            rise = self._observer.rise_time(period, TIME_CONSTANT, HISTORY - 1)
            self._time_constant = max(round(rise / period), 1)
            window = max(window, self._observer.rise_time(period, SHOWN, HISTORY - 1))
        stamps, residuals, stride = recent_residuals(self._memory, window)
        weight = 1.0 / joint["contact_threshold"]
        onset = estimate_onset(stamps, residuals, self._observer, weight, stride)
        # A contact that was there before the first of these samples shows its whole torque.
        self._has_risen = bool((np.abs(residuals[0]) > self._memory.joint["threshold"]).any())
        if self._has_risen:
            onset = Onset(float(stamps[0]), math.nan)
        self._height = float(self._memory.arm["peak"][0])
        self._peak = self._memory.residual
        self._is_peak_settled = self.is_settled(self._peak)
        # The few milliseconds since the onset have hardly changed the velocity.
        self._isolation.begin(q, self._memory.v)
        self.now = self._look(stamp, q, self._peak, onset.stamp)
        self._average = self._isolation.average
        self._count += 1
        self.open = self._with_peak(
            ContactEvent(
                id=self._count,
                phase="onset",
                level="contact",
                onset=onset.stamp,
                detected=float(stamp),
                release=None,
                joint="",
                peak_torque=0.0,
                force=self.now.force,
                force_settled=self.now.force is not None and self._is_peak_settled,
                onset_uncertainty=onset.uncertainty,
                **found(self.now),
            ),
            int(self._memory.arm["level"][0]),
        )
        return self.open

    def look(self, stamp: float, q: np.ndarray) -> None:
        """Isolate the open contact again, with the residual of the last sample.

        A contact must be open. The events describe the highest peak of the residual. If the average
        of the residuals has begun anew since this peak, because a hand has moved to another link,
        link and force of the peak remain as they were.

        Args:
            stamp: time of the last sample [s].
            q: joint positions at this sample, (nq,) [rad or m].
        """
        assert self.open is not None
        self.now = self._look(stamp, q, self._memory.residual, self.open.onset)
        self._take_peak(looks=True)
        if self._average == self._isolation.average:
            self.open = replace(self._with_force(self.open), **found(self.now))

    def end(self, release: float) -> ContactEvent | None:
        """Close the open contact at ``release`` [s]; return its event, or None if none is open."""
        if self.open is None:
            return None
        event = self._with_peak(self.open, int(self._memory.arm["height"][0]))
        self._take_peak(looks=False)
        if self._average == self._isolation.average:
            event = self._with_force(event)
        self.open = self.now = None
        # Repeated samples end a contact at the first of them, which may precede the detection.
        return replace(event, phase="release", release=max(float(release), event.detected))

    def _with_force(self, event: ContactEvent) -> ContactEvent:
        """Return the event with the force of the peak so far."""
        force = self._isolation.force(self._peak)
        is_settled = force is not None and self._is_peak_settled
        return replace(event, force=force, force_settled=is_settled)

    def _take_peak(self, *, looks: bool) -> None:
        """Store the residuals of a higher peak, unless the last residual is of another push.

        A look near the peak shows it with less noise than the highest sample. If no look came near
        it, the residuals of the highest sample are stored.

        Args:
            looks: whether the contact was isolated with the last sample.
        """
        if self._isolation.is_turned:
            return
        height = NEAR_PEAK * float(self._memory.arm["peak"][0])
        residual = self._memory.residual
        present = float((np.abs(residual) / self._memory.joint["threshold"]).max())
        if looks and present >= height:
            self._height, self._peak, age = present, residual, 0
        elif self._height < height:
            self._height = height / NEAR_PEAK
            self._peak = self._memory.joint["peak"].copy()
            age = count_since(self._memory, float(self._memory.arm["peaked"][0])) - 1
        else:
            return
        self._is_peak_settled = self.is_settled(self._peak, age)
        self._average = self._isolation.average

    def _look(self, stamp: float, q: np.ndarray, residual: np.ndarray, onset: float) -> Isolation:
        """Isolate the contact with the residual (nv,); ``onset`` is its onset [s].

        If the residual is beyond the range of any arm, the result is the link of the joint with the
        highest ratio of residual to threshold, without force and point.
        """
        risen = self._observer.risen(stamp - onset)
        if self._has_risen:
            risen = np.ones_like(risen)
        try:
            hard = bool(self._memory.arm["level"][0] == COLLISION)
            doubt = self.doubt()
            if hard:
                noise = self._isolation.noise
                jolt = jolt_doubt(
                    self._model, self._settings, q, self._memory, noise, stamp - onset
                )
                doubt = np.hypot(doubt, jolt)
            return self._isolation.look(q, residual, risen, doubt, hard=hard)
        except np.linalg.LinAlgError:
            self._isolation.begin()
            first = self._model.nv - len(self._model.joint_names)
            row = max(int(self._memory.arm["peak_joint"][0]) - first, 0)
            link, links = self._model.joint_links[row], self._model.body_links
            return Isolation(link, links, math.nan, None, None, math.nan)

    def _with_peak(self, event: ContactEvent, level: int) -> ContactEvent:
        """Return the event with ``level``, and with joint and residual of the peak so far."""
        arm = self._memory.arm[0]
        joints = self._model.joint_names
        joint = max(int(arm["peak_joint"]) - (self._model.nv - len(joints)), 0)
        return replace(
            event,
            level=LEVELS[level],  # type: ignore[arg-type]
            joint=joints[joint],
            peak_torque=float(arm["peak_torque"]),
        )

    def doubt(self) -> np.ndarray:
        """Return the standard deviation that the motion adds to each residual, (nv,) [N·m or N].

        It is the effect of friction at reversals and of model errors that grow with the speed.
        """
        return residual_doubt(self._settings, self._memory)
