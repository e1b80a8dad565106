"""Results of the detector: the verdict on one sample or on a block of samples, and events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from rbd_control.estimation.detector_state import LEVELS, REASONS, ZERO_EFFORT
from rbd_control.results import Derived, Result, parsed, plain, value

Level = Literal["none", "contact", "collision"]


@dataclass(frozen=True)
class ContactEvent(Result):
    """The onset or the release of one contact, with its link, force and times.

    An onset event has the estimates at the detection; a release event has the final estimates.
    """

    id: int = value("number of the contact, from 1; onset and release share it")
    phase: Literal["onset", "release"] = value("`onset` or `release`", in_json=False)
    level: Level = value("`contact` or `collision`; the release has the highest level reached")
    onset: float = value("estimated onset [s]", key="stamp", form=".9f")
    """Estimated true start [s], on the clock of the samples."""
    detected: float = value("stamp of the sample in which the flag rose [s]", form=".9f")
    release: float | None = value(
        "in a release, stamp of the sample from which contact is not reported any more [s]",
        form=".9f",
    )
    """If the contact ended for lack of a verdict, this is the last valid sample, repetitions not
    counted. Never earlier than ``detected``; None in an onset event."""
    joint: str = value("joint whose residual was highest above its threshold")
    link: str = value("the most probable link")
    """The most probable link, from all residuals of the contact so far.

    If a hand moves to another link without letting go, link, force and point of the release are
    those of the stronger push.
    """
    peak_torque: float = value("residual of that joint at its peak so far, signed [N·m or N]")
    force: np.ndarray | None = value(
        "force on the link, three numbers [N]; empty where it is not observable",
        components="component of the force [N]",
    )
    """Force of the environment on ``link`` at the peak, (3,) world axes [N]; None if the joint
    torques do not determine it."""

    force_settled: bool = value(
        "1 if the observer has followed the force; 0 while it still rises or falls: the true force "
        "may then be several times as large",
        default=False,
    )
    """In a release, whether it had followed the highest force; False where ``force`` is None."""

    onset_uncertainty: float = value(
        "standard deviation of the onset [s]",
        default=math.nan,
        key="stamp_uncertainty",
        unknown="nan",
    )
    candidates: tuple[str, ...] = value(
        "links that explain the residual, the most probable first", default=()
    )
    """Their probabilities add up to 95 %, in a collision to 90 %."""
    confidence: float = value(
        "probability of `link`; empty if unknown", default=math.nan, form=".4g"
    )
    point: np.ndarray | None = value(
        "point where the force acts, three numbers [m]; empty where it is not observable",
        default=None,
        components="coordinate of the point [m]",
    )
    """Point of the line of force, (3,) world axes [m], nearest to the middle of the link or, where
    the motion shows it, to the place that ran into an obstacle; None if the joint torques do not
    determine it."""

    DERIVED: ClassVar[tuple[Derived, ...]] = (
        Derived(
            "duration",
            "from the estimated onset to the detection; in a release, to the release [s]",
            lambda event: (event.release or event.detected) - event.onset,
            form=".9f",
        ),
        Derived("duration", "", lambda event: event.duration, on_topic=False, in_json=True),
        Derived(
            "direction",
            "direction of the force, unit vector of three numbers; empty where the force is not "
            "observable",
            lambda event: event.force / event.force_magnitude if event.force_magnitude else None,
        ),
        Derived(
            "in_contact", "1 at the onset, 0 at the release", lambda event: int(event.is_onset)
        ),
        Derived("severity", "1 contact, 2 collision", lambda event: LEVELS.index(event.level)),
        Derived(
            "force_magnitude",
            "magnitude of the force [N]; `nan` where it is not observable",
            lambda event: event.force_magnitude,
            unknown="nan",
        ),
    )

    @property
    def duration(self) -> float | None:
        """Time from :attr:`onset` to :attr:`release` [s]; None in an onset event."""
        return None if self.release is None else self.release - self.onset

    @property
    def is_onset(self) -> bool:
        """Whether the event is the onset of a contact."""
        return self.phase == "onset"

    @property
    def force_magnitude(self) -> float | None:
        """Magnitude of :attr:`force` [N]; None if it is unknown."""
        return None if self.force is None else float(np.linalg.norm(self.force))

    @property
    def force_text(self) -> str:
        """Magnitude of the force as text, such as "20.1 N"; empty if the force is unknown.

        A force that has not settled is "2.9 N, rising" at the onset, and "at least 2.9 N" in a
        release.
        """
        if self.force_magnitude is None:
            return ""
        text = f"{self.force_magnitude:.1f} N"
        if self.force_settled:
            return text
        return f"{text}, rising" if self.is_onset else f"at least {text}"

    def since(self, start: float) -> ContactEvent:
        """Return a copy of the event with all times relative to ``start`` [s]."""
        release = None if self.release is None else self.release - start
        return replace(
            self, onset=self.onset - start, detected=self.detected - start, release=release
        )

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain values that ``json`` can write; unknown values are None.

        The keys are ``duration`` and the names of all fields except ``phase``.
        """
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> ContactEvent:
        """Return the event whose key-values a detector published.

        Raises:
            KeyError: if a value is missing that is not optional.
            ValueError: if a value cannot come from a detector.
        """
        event = parsed(cls, values)
        if event.level == "none" or event.is_onset != (event.release is None):
            raise ValueError(f"level {event.level}, {event.phase}, release {event.release}")
        return event


class Verdict(NamedTuple):
    """Verdict on one sample; :class:`Detection` adds link, force and event of a contact.

    The estimation of link and force takes up to ten times as long as the verdict.
    """

    valid: bool
    """Whether there is a verdict."""
    contact: bool
    """Whether there is contact; also False if ``valid`` is False, so check ``valid`` first."""
    residual: np.ndarray
    """External joint torque estimate, (nv,) [N·m or N]."""
    reason_code: int
    """Reason for no verdict, index into :data:`~rbd_control.estimation.REASONS`; 0 if valid."""
    dropped_code: int
    """Reason why the sample was dropped, index into ``REASONS``; 0 if it was not dropped."""
    is_quiet: bool
    """Whether the sample is valid, was not dropped, and neither is in nor ends a contact."""


@dataclass(frozen=True)
class Detection:
    """Verdict on one sample, with link, force and event of a contact."""

    stamp: float
    """Time of the sample [s]."""
    valid: bool
    """Whether there is a verdict."""
    reason: str
    """Reason why there is no verdict, with the joint if it concerns one; empty if valid."""
    contact: bool
    """Whether there is contact; also False if ``valid`` is False, so check ``valid`` first."""
    level: Level
    """Highest level that the present contact has reached; ``none`` without contact."""
    residual: np.ndarray
    """External joint torque estimate, (nv,) [N·m or N]."""
    link: str
    """The link that was most probably touched; empty without contact."""
    force: np.ndarray | None
    """Present force of the environment on ``link``, (3,) world axes [N]; None without contact, and
    if the joint torques do not determine it."""
    event: ContactEvent | None
    """The onset or the release at this sample; None if no contact begins or ends with it."""
    candidates: tuple[str, ...] = ()
    """Links that explain the residuals of the contact so far, the most probable first, until their
    probabilities add up to 95 %, in a collision to 90 %; empty without contact."""
    confidence: float = math.nan
    """Probability of ``link``, in [0, 1]; NaN without contact, and if it is unknown."""
    point: np.ndarray | None = None
    """Point of the line of force, (3,) world axes [m], nearest to the middle of the link or, where
    the motion shows it, to the place that ran into an obstacle; None without contact, and if the
    joint torques do not determine it."""
    dropped: str = ""
    """Reason why the sample was dropped, with the joint if it concerns one, such as "no effort";
    empty if it was not dropped. A dropped sample keeps the previous verdict; from the third dropped
    sample in a row on, and ``maximum_gap`` after the last used sample, there is no verdict."""
    force_settled: bool = False
    """Whether the observer has followed ``force``: the residual has changed little within its last
    time constant. Until then a rising force is underestimated; False where ``force`` is None."""
    reason_code: int = 0
    """Index of ``reason`` into :data:`~rbd_control.estimation.REASONS`; 0 if valid."""
    dropped_code: int = 0
    """Index of ``dropped`` into :data:`~rbd_control.estimation.REASONS`; 0 if not dropped."""


def fault_text(code: int, joint: str) -> str:
    """Return the fault of a sample as text, such as ``implausible speed on joint_2``.

    Args:
        code: index into :data:`~rbd_control.estimation.REASONS`.
        joint: name of the joint with the fault; empty if the fault concerns no single joint.
    """
    text = REASONS[code]
    if not joint:
        return text
    return f"{joint} publishes no effort" if code == ZERO_EFFORT else f"{text} on {joint}"


@dataclass(frozen=True, eq=False)
class BlockDetection:
    """The verdicts on k samples, and the events of the contacts that begin or end in them."""

    residual: np.ndarray
    """(k, nv) external joint torque estimates [N·m or N]."""
    reason: np.ndarray
    """(k,) index into :data:`~rbd_control.estimation.REASONS`; 0 where there is a verdict."""
    level: np.ndarray
    """(k,) index into :data:`~rbd_control.estimation.LEVELS`: 0 none, 1 contact, 2 collision."""
    events: tuple[tuple[int, ContactEvent], ...]
    """Pairs of the index of a sample and the onset or release event at this sample."""
    dropped: np.ndarray
    """(k,) index into :data:`~rbd_control.estimation.REASONS` for dropped samples; 0 for samples
    that were not dropped."""
    joint: np.ndarray
    """(k,) row of the joint that ``reason`` or ``dropped`` concerns; -1 without a single joint."""
    threshold: np.ndarray
    """(k, nv) contact thresholds at the motion of each sample [N·m or N], see
    :mod:`~rbd_control.estimation.thresholds`; infinite from a restart of the observer until
    it has settled."""

    @property
    def valid(self) -> np.ndarray:
        """(k,) bool: whether there is a verdict."""
        return self.reason == 0

    @property
    def contact(self) -> np.ndarray:
        """(k,) bool: whether there is contact; also False for samples without a verdict."""
        return self.level > 0
