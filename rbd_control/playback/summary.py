"""Statistics of scores: delay, misses, false alarms per hour, links and forces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from rbd_control.playback.truth import Score, TrueContact

CONFIDENCE = 0.95
"""Confidence level of the interval for a rate of false alarms."""


@dataclass(frozen=True)
class Summary:
    """Statistics of the scores of one or several recordings; NaN where there are no data.

    The terms are those of :class:`~rbd_control.playback.truth.TrueContact`.

    Attributes:
        contacts: number of true contacts.
        misses: number of true contacts that were not found.
        repeated_events: number of events after the first in the same contact.
        delay_median: delay after which half of the contacts were found [s]; infinite if fewer were
            found. Contacts that have no delay but were not missed do not count.
        delay_p95: likewise the delay after which 95 % of the contacts were found [s].
        onset_error_median: median magnitude of the onset error [s].
        links: number of contacts with a known true link and an event.
        link_named: share of these contacts whose event has the true link as the most probable.
        link_among_named: share of these contacts whose event has the true link among its
            candidates.
        forces: number of contacts with a known true force and an estimate.
        force_error_median: median force error of these contacts [N].
        false_alarms: number of events that belong to no true contact.
        free_time: time with a valid verdict and without true contact [s].
    """

    contacts: int
    misses: int
    repeated_events: int
    delay_median: float
    delay_p95: float
    onset_error_median: float
    links: int
    link_named: float
    link_among_named: float
    forces: int
    force_error_median: float
    false_alarms: int
    free_time: float

    @property
    def false_alarms_per_hour(self) -> float:
        """Rate ``false_alarms / free_time`` of false alarms [1/h]; NaN if ``free_time`` is zero."""
        return self.false_alarms * 3600.0 / self.free_time if self.free_time > 0.0 else nan

    @property
    def false_alarms_interval(self) -> tuple[float, float]:
        """Lower and upper end of the confidence interval for the true rate of false alarms [1/h].

        Its level is :data:`CONFIDENCE`. The interval is exact for independent false alarms (Poisson
        distribution; Garwood 1936). It is 0 to infinity if ``free_time`` is zero.
        """
        from scipy.special import gammaincinv

        if not self.free_time > 0.0:
            return 0.0, inf
        tail = (1.0 - CONFIDENCE) / 2.0
        fewest = gammaincinv(self.false_alarms, tail) if self.false_alarms else 0.0
        most = gammaincinv(self.false_alarms + 1, 1.0 - tail)
        return float(fewest) * 3600.0 / self.free_time, float(most) * 3600.0 / self.free_time

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain values for ``json``; NaN and infinite values are None."""
        low, high = self.false_alarms_interval
        values = {
            **vars(self),
            "false_alarms_per_hour": self.false_alarms_per_hour,
            "false_alarms_per_hour_low": low,
            "false_alarms_per_hour_high": high,
        }
        return {key: value if np.isfinite(value) else None for key, value in values.items()}


def summarise(scores: Sequence[Score], free_time: float) -> Summary:
    """Return statistics over the scores of one or several recordings.

    Args:
        scores: the score of each recording.
        free_time: time with a valid verdict and without true contact, all recordings together [s].
    """
    contacts = [contact for each in scores for contact in each.contacts]
    misses = sum(each.misses for each in scores)
    delays = np.append(_known(contacts, "delay"), [inf] * misses)
    named = _known(contacts, "link_named")
    forces = _known(contacts, "force_error")
    return Summary(
        contacts=len(contacts),
        misses=misses,
        repeated_events=sum(each.repeated_events for each in scores),
        delay_median=_within(0.5, delays),
        delay_p95=_within(0.95, delays),
        onset_error_median=_of(np.median, np.abs(_known(contacts, "onset_error"))),
        links=len(named),
        link_named=_of(np.mean, named),
        link_among_named=_of(np.mean, _known(contacts, "link_among_named")),
        forces=len(forces),
        force_error_median=_of(np.median, forces),
        false_alarms=sum(each.false_events for each in scores),
        free_time=free_time,
    )


def _known(contacts: Iterable[TrueContact], what: str) -> np.ndarray:
    values = (getattr(contact, what) for contact in contacts)
    return np.array([value for value in values if value is not None], dtype=float)


def _within(part: float, delays: np.ndarray) -> float:
    """Return the delay within which the share ``part`` of the contacts was found."""
    return _of(lambda values: np.quantile(values, part, method="inverted_cdf"), delays)


def _of(statistic: Any, values: np.ndarray) -> float:
    return float(statistic(values)) if values.size else nan
