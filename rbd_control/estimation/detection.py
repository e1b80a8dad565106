"""Results of the detector: the verdict on one sample or on a block of samples, and events."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from rbd_control.estimation.detector_state import REASONS, ZERO_EFFORT

Level = Literal["none", "contact", "collision"]


@dataclass(frozen=True)
class ContactEvent:
    """The onset or the release of one contact, with its link, force and times.

    An onset event has the estimates at the detection; a release event has the final estimates.
    """

    id: int
    """Number of the contact, from 1; the onset and the release of one contact share it."""
    phase: Literal["onset", "release"]
    level: Level
    """``contact`` or ``collision``; the release carries the highest level reached."""
    onset: float
    """Estimated true start [s], on the clock of the samples."""
    detected: float
    """Time of the sample from which contact is reported [s]."""
    release: float | None
    """Time of the sample from which contact is not reported any more [s], or of the last valid
    sample, repetitions not counted, if the contact ended for lack of a verdict; never earlier than
    ``detected``. None in an onset event."""
    joint: str
    """The joint with the highest ratio of residual to threshold in the contact so far."""
    link: str
    """The most probable link, from all residuals of the contact so far.

    If a hand moves to another link without letting go, link, force and point of the release are
    those of the stronger push.
    """
    peak_torque: float
    """The residual (estimated external torque) of ``joint`` at its peak, signed [N·m or N]."""
    force: np.ndarray | None
    """Force of the environment on ``link`` at the peak, (3,) world axes [N]; None if the joint
    torques do not determine it."""

    onset_uncertainty: float = math.nan
    """Standard deviation of ``onset`` [s]; NaN if it is unknown."""
    candidates: tuple[str, ...] = ()
    """Links that explain the residual, the most probable first, until their probabilities add up to
    86 %."""
    confidence: float = math.nan
    """Probability of ``link``, in [0, 1]; NaN if it is unknown."""
    point: np.ndarray | None = None
    """Point of the line of force, (3,) world axes [m], nearest to the middle of the link or, where
    the motion shows it, to the place that ran into an obstacle; None if the joint torques do not
    determine it."""

    @property
    def duration(self) -> float | None:
        """Time from :attr:`onset` to :attr:`release` [s]; None in an onset event."""
        return None if self.release is None else self.release - self.onset

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
        return {
            "id": self.id,
            "onset": self.onset,
            "onset_uncertainty": _known(self.onset_uncertainty),
            "detected": self.detected,
            "release": self.release,
            "duration": self.duration,
            "level": self.level,
            "joint": self.joint,
            "link": self.link,
            "candidates": list(self.candidates),
            "confidence": _known(self.confidence),
            "peak_torque": self.peak_torque,
            "force": _numbers(self.force),
            "point": _numbers(self.point),
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _numbers(vector: np.ndarray | None) -> list[float] | None:
    return None if vector is None else [float(x) for x in vector]


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
    probabilities add up to 86 %; empty without contact."""
    confidence: float = math.nan
    """Probability of ``link``, in [0, 1]; NaN without contact, and if it is unknown."""
    point: np.ndarray | None = None
    """Point of the line of force, (3,) world axes [m], nearest to the middle of the link or, where
    the motion shows it, to the place that ran into an obstacle; None without contact, and if the
    joint torques do not determine it."""
    dropped: str = ""
    """Reason why the sample was dropped, with the joint if it concerns one; empty if it was not
    dropped. A dropped sample keeps the previous verdict; from the third dropped sample in a row on,
    and ``maximum_gap`` after the last used sample, there is no verdict."""
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
    :mod:`~rbd_control.estimation.thresholds`; infinite without velocity or effort, and from a
    restart of the observer until it has settled."""

    @property
    def valid(self) -> np.ndarray:
        """(k,) bool: whether there is a verdict."""
        return self.reason == 0

    @property
    def contact(self) -> np.ndarray:
        """(k,) bool: whether there is contact; also False for samples without a verdict."""
        return self.level > 0
