"""Decide from the first seconds of joint states whether the published efforts fit ``effort_kind``.

The parameter ``effort_kind`` declares what a driver publishes as effort: joint torque, motor
current, or joint torque without the gravity torque. The samples are averaged over windows of half a
second. In each window ``effort`` is the mean effort of a joint times ``effort_gain``, ``need`` the
mean torque that model and friction require, and ``g`` the mean gravity torque. A window in which
``g`` is at least :data:`LOADED` default contact thresholds is evidence for that joint:

* effort with gravity (``torque``, ``current``):  ``effort = need``
* effort without gravity:                         ``effort = need - g``

The declared kind is *confirmed* if the loaded joints follow it clearly better than the other kind.
It is *refuted* if all loaded joints follow the other kind, on at least two joints or in two poses,
and if neither a payload nor a tilted base, which the description may lack, explains the efforts as
well. Otherwise the decision stays open. If a support carries part of the weight, the efforts follow
neither kind.

A decision in favour of the declared kind is final, so that no contact can refute it later, until
:meth:`EffortKindJudge.start_again`, another kind or gain, a step back in time, or a pause of the
samples of more than :data:`PAUSE`. A refutation ends when the last two windows confirm the declared
kind, and with another kind or gain.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.thresholds import default_contact_thresholds
from rbd_control.identification.evidence import unit_payloads
from rbd_control.identification.motion import RecordedMotion, implausible, in_range
from rbd_control.identification.regression import external_means
from rbd_control.robot.effort import EffortParameters

Array = NDArray[np.float64]
State = Literal["open", "confirmed", "refuted"]

PERIOD = 0.02
"""Length of the time slots, of each of which only the first sample is used [s]."""
WINDOW = 0.5
"""Time over which samples are averaged [s]."""
FEWEST = 5
"""Smallest number of samples in a window."""
MOST = 20
"""Maximum number of stored windows; older windows are discarded."""
LEAST_WINDOWS = 2
"""Smallest number of windows for a decision."""
PAUSE = 2.0
"""Time without samples after which the driver may have been restarted [s]."""
LOADED = 2.0
"""Smallest gravity torque that is evidence, as a multiple of the default contact threshold."""
CHANGED = 1.0
"""Smallest change of a joint's gravity torque between two poses that counts as a change, as a
multiple of the default contact threshold."""
NEAR = 0.3
"""Deviation from a kind that friction and errors of the model explain, as a fraction of gravity."""
VERY_NEAR = 0.125
"""Same as :data:`NEAR` if all evidence is from one pose, in which a support would explain the
efforts as well."""
BETTER = 0.25
"""Largest sum of squared deviations that confirms a kind, as a fraction of the other kind's sum."""
PROPORTIONAL = 0.03
"""Ratio of effort to gravity torque from which an effort may be a motor current."""
FARTHEST = 0.4
"""Largest distance of a payload's centre of mass from the last link, along each axis [m]."""
TILTS = 600
"""Number of directions of gravity that are tried, some 8 degrees apart."""


@dataclass(frozen=True)
class EffortKindDecision:
    """Whether the declared ``effort_kind`` fits the efforts."""

    state: State = "open"
    """``open``, ``confirmed`` or ``refuted``."""
    text: str = ""
    """For the user: the evidence and the remedy if refuted, the reason why there is no decision if
    open, and ``fits`` if confirmed."""


_OPEN = EffortKindDecision(text="too few samples")
_NEITHER = "the efforts follow neither kind: contact, a support or a wrong unit hides gravity"


@dataclass(frozen=True, eq=False)
class _Window:
    """Means over half a second."""

    q: Array
    """(nq,) positions [rad or m]."""
    effort: Array
    """(nv,) effort times ``effort_gain`` [N·m or N]; NaN where it was exactly zero throughout."""
    need: Array
    """(nv,) torque that model and friction need, gravity included [N·m or N]."""
    gravity: Array
    """(nv,) gravity torque [N·m or N]."""


class EffortKindJudge:
    """Decides whether the declared ``effort_kind`` fits the efforts; memory and time are bounded.

    Args:
        model: the robot, with identified corrections if there are any.
        parameters: of the detector, with ``effort_kind``, ``effort_gain`` and friction; per-joint
            values in the order of the model.

    Attributes:
        decision: the current decision.
        was_confirmed: whether the decision has been ``confirmed`` at any time since construction.
    """

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        self.was_confirmed = False
        self._model, self._parameters = model, parameters
        self._usual = default_contact_thresholds(model)
        self._windows: deque[_Window] = deque(maxlen=MOST)
        self._samples: list[tuple[float, Array, Array, Array]] = []
        self._last, self._slot = -math.inf, -math.inf
        self.decision = _OPEN

    @property
    def is_refuted(self) -> bool:
        """Whether the declared kind is refuted, so that no verdict on contact is reliable."""
        return self.decision.state == "refuted"

    def set_parameters(self, model: Model, parameters: DetectorParameters) -> None:
        """Use another model and other parameters, and discard the evidence.

        With another ``effort_kind`` or ``effort_gain`` the decision is open again; otherwise it
        remains.
        """
        same = all(
            getattr(parameters, name) == getattr(self._parameters, name)
            for name in EffortParameters.names()
        )
        self._model, self._parameters = model, parameters
        self._usual = default_contact_thresholds(model)
        self._windows.clear()
        if not same:
            self.decision = _OPEN

    def start_again(self) -> None:
        """Discard all samples and evidence, as after a restart of the driver.

        A confirmed decision becomes open again; a refuted decision remains.
        """
        self._windows.clear()
        self._samples.clear()
        self._last, self._slot = -math.inf, -math.inf
        if not self.is_refuted:
            self.decision = _OPEN

    def add(self, stamp: float, q: Array, v: Array, tau: Array) -> bool:
        """Process one sample; return whether ``decision.state`` has changed.

        Only the first sample in each :data:`PERIOD` is used, and none while the decision is
        confirmed. After a gap of more than ``maximum_gap`` the unfinished window is discarded.
        After a pause of more than :data:`PAUSE`, or a step back in time, all evidence is discarded
        as by :meth:`start_again`.

        Args:
            stamp: time of the sample [s].
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s].
            tau: joint efforts as published, (nv,) [N·m, N or unit of the driver].
        """
        step, self._last = stamp - self._last, stamp
        slot = stamp // PERIOD
        if slot <= self._slot and 0.0 <= step <= PAUSE:  # nearly always at high rates
            return False
        before = self.decision.state
        if self._slot > -math.inf and not 0.0 <= step <= PAUSE:
            self.start_again()
            self._last = stamp
        self._slot = slot
        if self.decision.state == "confirmed":
            return False
        if step > self._parameters.maximum_gap:
            self._samples.clear()
        self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        if stamp - self._samples[0][0] >= WINDOW:
            window = self._window()
            self._samples.clear()
            if window is not None:
                self._windows.append(window)
                self.decision = self._decide()
                self.was_confirmed |= self.decision.state == "confirmed"
        return self.decision.state != before

    def add_block(self, stamps: Array, q: Array, v: Array, tau: Array) -> None:
        """Process k samples that continue the previous samples, as :meth:`add` would one by one.

        Args:
            stamps: times of the samples, (k,) [s].
            q: joint positions, (k, nq) [rad or m].
            v: joint velocities, (k, nv) [rad/s or m/s].
            tau: joint efforts as published, (k, nv) [N·m, N or unit of the driver].
        """
        steps = np.diff(stamps, prepend=self._last)
        pauses = np.flatnonzero(~((steps >= 0.0) & (steps <= PAUSE)))
        k = 0
        while k < len(stamps):
            if self.decision.state == "confirmed":  # until the next pause
                later = pauses[pauses >= k]
                k = int(later[0]) if later.size else len(stamps)
                self._last = float(stamps[k - 1]) if k else self._last
                if k == len(stamps):
                    return
            self.add(float(stamps[k]), q[k], v[k], tau[k])
            k += 1

    def add_motion(self, motion: RecordedMotion) -> None:
        """Process a recorded motion that does not continue the previous samples.

        An unfinished averaging window is dropped. If the motion begins 0 to :data:`PAUSE` seconds
        after the last sample, earlier evidence and the decision are kept; otherwise the judgement
        begins anew as by :meth:`start_again`, which also reopens a confirmed decision.

        Args:
            motion: the motion, ``tau`` as published.
        """
        self._samples.clear()
        self.add_block(motion.t, motion.q, motion.v, motion.tau)

    def _window(self) -> _Window | None:
        """Return the means of the collected samples; None if they are not usable."""
        columns = (np.array(column) for column in zip(*self._samples, strict=True))
        motion = RecordedMotion("start", *columns)
        dead = (motion.tau == 0.0).all(axis=0)
        if motion.t.size < FEWEST or dead.all() or not in_range(motion).all():
            return None
        if implausible(motion, self._model, self._parameters).any():
            return None
        weight = np.diff(motion.t) / (motion.t[-1] - motion.t[0])
        still = replace(motion, tau=np.zeros_like(motion.tau))
        friction = self._parameters.friction(self._model.nv).torque(motion.v)
        need = weight @ external_means(still, self._model) + friction.mean(axis=0)
        gain = self._parameters.for_joints("effort_gain", self._model.nv)
        effort = np.where(dead, np.nan, gain * motion.tau.mean(axis=0))
        gravity = gravity_torque(self._model, motion.q).mean(axis=0)
        return _Window(motion.q.mean(axis=0), effort, need, gravity)

    def _decide(self) -> EffortKindDecision:
        """Return the decision based on the stored windows."""
        known = list(self._windows)
        if self.is_refuted:
            # A change of the driver's output shows in the latest windows only.
            return self._confirmed(known[-LEAST_WINDOWS:]) or self.decision
        confirmed = self._confirmed(known)
        if confirmed is not None:
            return confirmed
        evidence = _Evidence.of(known, self._usual, self._takes_gravity_off)
        missing = evidence.missing(self._model)
        if missing:
            return EffortKindDecision(text=missing)
        if not evidence.fits_other():
            return EffortKindDecision(text=_NEITHER)
        other = self._other_cause(known)
        if other:
            text = f"the efforts do not fit effort_kind, and {other} may be the cause: move the arm"
            return EffortKindDecision(text=text)
        return EffortKindDecision("refuted", self._refutation(evidence))

    @property
    def _takes_gravity_off(self) -> bool:
        return self._parameters.effort_kind == "torque_without_gravity"

    def _confirmed(self, windows: Sequence[_Window]) -> EffortKindDecision | None:
        """Return the confirmation of the declared kind; None when it is not confirmed."""
        if len(windows) < LEAST_WINDOWS:
            return None
        evidence = _Evidence.of(windows, self._usual, self._takes_gravity_off)
        loaded = evidence.loaded
        if not loaded.any():
            return None
        scaled = [(x / self._usual)[loaded] for x in (evidence.declared, evidence.other)]
        mine, others = (float((x**2).sum()) for x in scaled)
        if mine >= BETTER * others:
            return None
        return EffortKindDecision("confirmed", "fits")

    def _other_cause(self, windows: Sequence[_Window]) -> str:
        """Return a payload or a tilted base as another explanation, or an empty text."""
        evidence = _Evidence.of(windows, self._usual, self._takes_gravity_off)
        q = np.array([window.q for window in windows])
        if evidence.explained_by(evidence.scaled(self._payloads(q))):
            return "a payload that the model lacks"
        if not self._takes_gravity_off and evidence.explained_by(self._tilts(q)):
            return "a tilted base"
        return ""

    def _payloads(self, q: Array) -> Array:
        """Return torques (c, n, nv) of 1 kg at c places about the last link."""
        features = np.stack([gravity_torque(one, q) for one in unit_payloads(self._model)], axis=-1)
        axis = np.linspace(-FARTHEST, FARTHEST, 5)
        places = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
        return np.asarray(features[..., 0] + np.einsum("nia,ca->cni", features[..., 1:], places))

    def _tilts(self, q: Array) -> Array:
        """Return changes (c, n, nv) of the gravity torque [N·m or N] when the base is tilted."""
        field = np.array(self._model.arrays.gravity, dtype=float)
        arrays = self._model.arrays
        units = [replace(self._model, arrays=arrays._replace(gravity=axis)) for axis in np.eye(3)]
        columns = np.stack([gravity_torque(one, q) for one in units], axis=-1)
        directions = np.linalg.norm(field) * _sphere(TILTS)
        return np.asarray(np.einsum("nia,ca->cni", columns, directions - field))

    def _refutation(self, evidence: _Evidence) -> str:
        """Return the evidence against the declared kind, and the parameter to set instead."""
        row, i = evidence.strongest()
        joint = self._model.joint_names[i - self._model.nv]
        effort, weight = evidence.effort[row, i], evidence.gravity[row, i]
        said = (
            f"effort of {joint} is {effort:.1f} N·m where gravity alone requires {weight:.1f} N·m: "
        )
        if self._takes_gravity_off:
            return f"{said}this driver includes gravity; set effort_kind: torque"
        ratio = evidence.smallest_ratio()
        if self._parameters.effort_kind == "current":
            return f"{said}effort_gain does not fit; run rbd-control calibrate --effort current"
        if evidence.is_proportional():
            return f"{said}it looks like motor current; set effort_kind: current and effort_gain"
        said += "this driver subtracts gravity; set effort_kind: torque_without_gravity"
        if ratio > PROPORTIONAL:
            said += " (or current, if it publishes motor currents)"
        elif not evidence.has_moved():
            said += " (or release the brakes that carry the arm)"
        return said


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Windows as arrays (n, nv), with the deviations from both kinds."""

    effort: Array
    gravity: Array
    declared: Array
    """Effort minus the effort of the declared kind [N·m or N]; zero if no effort is measured."""
    other: Array
    """Effort minus the effort of the other kind [N·m or N]; zero if no effort is measured."""
    usual: Array
    """(nv,) default contact thresholds [N·m or N]."""
    loaded: NDArray[np.bool_]
    """Whether gravity is evidence, (n, nv) bool."""

    @classmethod
    def of(cls, windows: Sequence[_Window], usual: Array, without: bool) -> _Evidence:
        """Return the evidence of windows; ``without``: the declared kind excludes gravity."""
        effort, need, gravity = (
            np.array([getattr(window, name) for window in windows])
            for name in ("effort", "need", "gravity")
        )
        measured = np.isfinite(effort)
        with_gravity = np.where(measured, effort - need, 0.0)
        free = np.where(measured, effort - (need - gravity), 0.0)
        loaded = measured & (np.abs(gravity) >= LOADED * usual)
        pair = (free, with_gravity) if without else (with_gravity, free)
        return cls(effort, gravity, *pair, usual, loaded)

    def missing(self, model: Model) -> str:
        """Return the evidence that is missing for a refutation; empty if the evidence suffices."""
        if len(self.effort) < LEAST_WINDOWS:
            return "too few samples"
        joints = np.flatnonzero(self.loaded.any(axis=0))
        if not joints.size:
            return "gravity hardly loads any joint in this pose: move the arm"
        if joints.size + self._changes(CHANGED)[joints].sum() < 2:
            joint = model.joint_names[int(joints[0]) - model.nv]
            return f"gravity loads {joint} alone in this pose: move the arm"
        return ""

    def has_moved(self) -> bool:
        """Return whether the gravity torque of a loaded joint has changed much."""
        return bool((self._changes(LOADED) & self.loaded.any(axis=0)).any())

    def fits_other(self) -> bool:
        """Return whether all joints follow the other kind; more closely if the arm did not move."""
        share = NEAR if self.has_moved() else VERY_NEAR
        bound = np.where(self.loaded, share * np.abs(self.gravity), self._tolerance)
        return bool((np.abs(self.other) <= bound).all())

    def scaled(self, features: Array) -> Array:
        """Return features (c, n, nv), each scaled by a factor so that it fits ``declared`` best.

        The factor is not negative.
        """
        weight = 1.0 / self._tolerance**2
        power = np.einsum("cni,ni->c", features**2, weight)
        wanted = np.einsum("cni,ni->c", features, weight * self.declared)
        scale = np.clip(wanted / np.maximum(power, 1e-12), 0.0, None)
        return np.asarray(scale[:, None, None] * features)

    def explained_by(self, features: Array) -> bool:
        """Return whether one of the torques (c, n, nv) explains the efforts.

        It is then the deviation from the declared kind, within the tolerance.
        """
        left = np.abs(self.declared - features)
        return bool((left <= self._tolerance).all(axis=(1, 2)).any())

    def strongest(self) -> tuple[int, int]:
        """Return window and joint with the largest ratio of gravity torque to default threshold."""
        share = np.where(self.loaded, np.abs(self.gravity) / self.usual, 0.0)
        row, i = np.unravel_index(int(np.argmax(share)), share.shape)
        return int(row), int(i)

    def smallest_ratio(self) -> float:
        """Return the smallest ratio of effort to gravity torque among the loaded joints."""
        return float((self.effort[self.loaded] / self.gravity[self.loaded]).min())

    def is_proportional(self) -> bool:
        """Return whether the arm has moved and efforts are in a fixed ratio to gravity torques."""
        if not self.has_moved() or self.smallest_ratio() < PROPORTIONAL:
            return False
        g, effort = (np.where(self.loaded, x, 0.0) for x in (self.gravity, self.effort))
        ratio = (effort * g).sum(axis=0) / np.maximum((g * g).sum(axis=0), 1e-12)
        return bool(((effort - ratio * g) ** 2).sum() < 0.1 * (effort**2).sum())

    @property
    def _tolerance(self) -> Array:
        """Deviation that friction and errors of the model explain, (n, nv) [N·m or N]."""
        return np.asarray(np.maximum(NEAR * np.abs(self.gravity), self.usual))

    def _changes(self, multiple: float) -> NDArray[np.bool_]:
        """Return the joints whose gravity torque changes by ``multiple`` thresholds, (nv,) bool."""
        return np.asarray(np.ptp(self.gravity, axis=0) >= multiple * self.usual)


def _sphere(count: int) -> Array:
    """Return unit vectors that cover the sphere evenly, (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)
