"""From the residual to a verdict: contact, no contact, or no verdict at all.

A contact begins when a joint's residual has stayed above its threshold for ``onset_debounce``, and
ends when every residual has stayed below ``release_ratio`` of its threshold for
``release_debounce``. It is a collision from the sample on that any residual passes its collision
threshold. Doubt is its own answer: without effort or velocity, after a gap and while the observer
settles the detection is not valid, which is not the same as "no contact".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.isolation import Isolation, LinkIsolation
from rbd_control.estimation.momentum_observer import MomentumObserver
from rbd_control.estimation.onset import estimate_onset

ONSET_WINDOW = 0.1
"""How far back the start of a contact is looked for [s]."""
ISOLATION_PERIOD = 0.02
"""Time between two looks at which link is touched, while contact lasts [s]."""
NEAR_PEAK = 0.9
"""Part of the peak from which on link and force are taken for those of the peak."""
TARE_TIME = 0.25
"""Time constant of the mean residual that a tare takes off [s]."""
ROUNDING = 1e-6
"""What sums of stamps differ from a round debounce time by [s]."""

Level = Literal["none", "contact", "collision"]


@dataclass(frozen=True)
class ContactEvent:
    """The beginning or the end of one contact."""

    id: int
    """Counts contacts from 1; the onset and the release of one contact share it."""
    phase: Literal["onset", "release"]
    level: Level
    """``contact`` or ``collision``; the release carries the highest level reached."""
    onset: float
    """Estimated true start [s], on the clock of the samples."""
    detected: float
    """When the flag rose [s]."""
    release: float | None
    """When the flag fell [s]; None at the onset."""
    joint: str
    """The joint whose residual stood highest over its threshold."""
    link: str
    """The link the residual points to, at its peak so far."""
    peak_torque: float
    """The residual of ``joint`` at its peak, signed [N·m or N]."""
    force: np.ndarray | None
    """Force on ``link`` at the peak, (3,) world axes [N]; None where it is not observable."""

    def since(self, start: float) -> ContactEvent:
        """The same event with times that count from ``start`` [s]."""
        release = None if self.release is None else self.release - start
        return replace(
            self, onset=self.onset - start, detected=self.detected - start, release=release
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values that ``json`` can write; what is not known is None."""
        return {
            "onset": self.onset,
            "detected": self.detected,
            "release": self.release,
            "level": self.level,
            "joint": self.joint,
            "link": self.link,
            "peak_torque": self.peak_torque,
            "force": None if self.force is None else [float(x) for x in self.force],
        }


@dataclass(frozen=True)
class Detection:
    """The verdict on one sample."""

    stamp: float
    """Time of the sample [s]."""
    valid: bool
    """Whether there is a verdict at all."""
    reason: str
    """Why there is none; empty when valid."""
    contact: bool
    """The verdict; False also when not valid, so look at ``valid`` first."""
    level: Level
    """``none``, ``contact`` or ``collision``, of the contact so far."""
    residual: np.ndarray
    """External joint torque estimate, (nv,) [N·m or N]."""
    link: str
    """The touched link; empty without contact."""
    force: np.ndarray | None
    """Force on that link now, (3,) world axes [N]; None where unknown or not observable."""
    event: ContactEvent | None
    """The onset or release that happened at this sample."""


class ContactDetector:
    """Momentum observer, thresholds and events for one arm, fed sample by sample.

    Args:
        model: the robot.
        parameters: see :class:`~rbd_control.estimation.DetectorParameters`.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        n = model.nv
        self.model = model
        self.parameters = parameters
        self.contact_threshold = parameters.for_joints("contact_threshold", n)
        self.collision_threshold = parameters.for_joints("collision_threshold", n)
        self._observer = MomentumObserver(
            model, parameters.for_joints("observer_gain", n), parameters.friction(n)
        )
        self._isolation = LinkIsolation(model, self.contact_threshold, parameters.force_uncertainty)
        self._bias = np.zeros(n)
        self._contacts = 0
        self._stamp: float | None = None
        self._started: float | None = None
        self._settled = False
        self._open: ContactEvent | None = None
        self.reset()

    def reset(self) -> None:
        """Start the observer again; a contact still open is forgotten without a release."""
        self._restart()
        self._open = None
        self._stamp = None

    def tare(self) -> np.ndarray:
        """Take the mean residual of the last moment off from now on, and return it.

        Raises:
            InputError: while there is no valid contact-free verdict to take it from.
        """
        if not self._settled or self._open is not None:
            raise InputError("cannot tare: the detector is not in a valid state without contact")
        self._bias = self._bias + self._mean
        taken = self._bias.copy()
        self._restart()
        return taken

    def update(
        self, stamp: float, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> Detection:
        """Judge one sample.

        Args:
            stamp: time of the sample [s]; must increase.
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s]; None when not measured.
            tau: joint torques, (nv,) [N·m or N]; None when not measured.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or a stamp that does not
                increase.
        """
        previous = self._stamp
        if previous is not None and not stamp > previous:
            raise InputError(f"stamp {stamp} s does not lie after the last one, {previous} s")
        if v is None or tau is None:
            missing = "velocity" if v is None else "effort"
            return self._no_verdict(stamp, f"no {missing}", previous)
        dt = 0.0 if previous is None else stamp - previous
        gap = dt > self.parameters.maximum_gap
        closed = None
        if gap:
            closed = self._close(previous)
            self._restart()
        # A residual r says the measured torque falls short by r.
        residual = self._observer.update(q, v, tau + self._bias, dt)
        self._stamp = stamp
        if self._started is None:
            self._started = stamp
            reason = f"gap of {dt:.3f} s" if gap else "settling"
            return self._invalid(stamp, reason, residual, closed)
        if not self._settled:
            if stamp - self._started < self.parameters.settling_time:
                return self._invalid(stamp, "settling", residual, None)
            self._settled = True
        self._remember(stamp, residual, dt)
        event = self._judge(stamp, q, residual, dt)
        contact = self._open is not None
        return Detection(
            stamp=stamp,
            valid=True,
            reason="",
            contact=contact,
            level=self._open.level if self._open else "none",
            residual=residual,
            link=self._now.link if contact and self._now else "",
            force=self._now.force if contact and self._now else None,
            event=event,
        )

    def _restart(self) -> None:
        self._observer.reset()
        self._started = None
        self._settled = False
        self._above = 0.0
        self._below = 0.0
        self._peak = 0.0
        self._mean = np.zeros(self.model.nv)
        self._history: deque[tuple[float, np.ndarray]] = deque()
        self._now: Isolation | None = None
        self._isolated = 0.0

    def _no_verdict(self, stamp: float, reason: str, previous: float | None) -> Detection:
        closed = self._close(previous)
        self._restart()
        self._stamp = stamp
        return self._invalid(stamp, reason, np.zeros(self.model.nv), closed)

    def _invalid(
        self, stamp: float, reason: str, residual: np.ndarray, event: ContactEvent | None
    ) -> Detection:
        return Detection(stamp, False, reason, False, "none", residual, "", None, event)

    def _remember(self, stamp: float, residual: np.ndarray, dt: float) -> None:
        self._history.append((stamp, residual))
        # Four samples at least, so that an onset can be estimated at 30 Hz too.
        while len(self._history) > 6 and stamp - self._history[0][0] > ONSET_WINDOW:
            self._history.popleft()
        if self._open is None:
            self._mean += min(dt / TARE_TIME, 1.0) * (residual - self._mean)

    def _judge(
        self, stamp: float, q: np.ndarray, residual: np.ndarray, dt: float
    ) -> ContactEvent | None:
        ratios = np.abs(residual) / self.contact_threshold
        highest = int(np.argmax(ratios))
        if self._open is None:
            self._above = self._above + dt if ratios[highest] > 1.0 else 0.0
            if self._above == 0.0 or self._above < self.parameters.onset_debounce - ROUNDING:
                return None
            return self._begin(stamp, q, residual, highest, float(ratios[highest]))
        self._follow(stamp, q, residual, highest, float(ratios[highest]))
        calm = ratios[highest] < self.parameters.release_ratio
        self._below = self._below + dt if calm else 0.0
        if calm and self._below >= self.parameters.release_debounce - ROUNDING:
            return self._close(stamp)
        return None

    def _begin(
        self, stamp: float, q: np.ndarray, residual: np.ndarray, joint: int, ratio: float
    ) -> ContactEvent:
        stamps = np.array([item[0] for item in self._history])
        residuals = np.array([item[1] for item in self._history])
        onset = estimate_onset(stamps, residuals, self._observer.gain, 1.0 / self.contact_threshold)
        self._now = self._isolation.isolate(q, residual)
        self._isolated, self._peak, self._below = stamp, ratio, 0.0
        self._contacts += 1
        self._open = ContactEvent(
            id=self._contacts,
            phase="onset",
            level=self._level(residual),
            onset=onset,
            detected=stamp,
            release=None,
            joint=self.model.joint_names[joint],
            link=self._now.link,
            peak_torque=float(residual[joint]),
            force=self._now.force,
        )
        return self._open

    def _follow(
        self, stamp: float, q: np.ndarray, residual: np.ndarray, joint: int, ratio: float
    ) -> None:
        assert self._open is not None
        if self._open.level == "contact" and self._level(residual) == "collision":
            self._open = replace(self._open, level="collision")
        if ratio > self._peak:
            self._peak = ratio
            self._open = replace(
                self._open,
                joint=self.model.joint_names[joint],
                peak_torque=float(residual[joint]),
            )
        if stamp - self._isolated >= ISOLATION_PERIOD:
            self._isolated = stamp
            self._now = self._isolation.isolate(q, residual)
            if ratio >= NEAR_PEAK * self._peak:
                self._open = replace(self._open, link=self._now.link, force=self._now.force)

    def _level(self, residual: np.ndarray) -> Level:
        return "collision" if np.any(np.abs(residual) > self.collision_threshold) else "contact"

    def _close(self, stamp: float | None) -> ContactEvent | None:
        """End the open contact at ``stamp``, the last moment it was known to last."""
        if self._open is None:
            return None
        event = replace(self._open, phase="release", release=stamp)
        self._open, self._now = None, None
        self._above = 0.0
        return event
