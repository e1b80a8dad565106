"""Replay against labelled contacts: scores, their summary, and the scaled thresholds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import poisson
from swinging_arm import (
    LABELS,
    MODEL,
    PARAMETERS,
    recorded,
    swing,
)

from rbd_control.errors import RecordingError
from rbd_control.playback.replay import replay
from rbd_control.playback.truth import Label, Score, TrueContact, read_labels, score, summarise


def test_scoring() -> None:
    """Found, found twice, missed, false, and too close to the end to be held against it."""
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    events = [replace(event, onset=t - 0.01, detected=t) for t in (0.9, 1.1, 1.4, 2.05, 5.0)]
    contacts = [(1.0, 1.5), (2.0, 2.01), (3.0, 3.1), (9.97, None)]
    result = score(contacts, events, 10.0)
    assert [contact.event for contact in result.contacts] == [1, 3, None, None]
    assert result.contacts[0].delay == pytest.approx(0.1)
    assert result.contacts[0].onset_error == pytest.approx(0.09)
    assert (result.misses, result.false_events, result.repeated_events) == (1, 2, 1)


def test_scores_of_links_forces_and_contacts_that_share_an_event() -> None:
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    force = np.array([3.0, 0.0, 4.0])
    events = [
        replace(event, onset=1.0, detected=1.1, release=1.6, force=force),
        replace(
            event,
            onset=3.0,
            detected=3.1,
            release=None,
            link="upper",
            force=None,
            candidates=("upper", "lower"),
        ),
    ]
    labels = [
        Label(1.0, 1.3, "lower", np.array([6.0])),
        Label(1.5, 1.7),
        Label(3.0, 3.5, "lower", np.array([3.0, 1.0, 4.0])),
        Label(4.0, 5.0),
    ]
    contacts = score(labels, events, 10.0).contacts
    assert [contact.event for contact in contacts] == [0, 0, 1, 1]
    assert [contact.delay for contact in contacts] == [pytest.approx(0.1), None] * 2
    assert [contact.link_named for contact in contacts] == [True, None, False, None]
    assert [contact.link_among_named for contact in contacts] == [True, None, True, None]
    assert [contact.force_error for contact in contacts] == [pytest.approx(1.0), None, None, None]
    vector = score([labels[2]._replace(start=1.0)], events, 10.0).contacts[0]
    assert vector.force_error == pytest.approx(1.0)


def test_false_alarm_that_lasts_into_a_contact_does_not_find_it() -> None:
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    result = score([(2.0, 3.0)], [replace(event, detected=1.0, release=4.0)], 10.0)
    assert (result.misses, result.false_events) == (1, 1)


def test_summary_of_scores() -> None:
    found = [TrueContact(t, t + 1.0, 0, 0.001 * t, -0.002) for t in range(19)]
    missed = TrueContact(20.0, 21.0, None)
    some = summarise([Score(tuple(found), 0, 2, 1), Score((missed,), 1, 1, 0)], 7200.0)
    assert (some.contacts, some.misses, some.repeated_events, some.false_alarms) == (20, 1, 1, 3)
    # Half of 20 are found after the tenth delay, 95 % after the nineteenth.
    assert (some.delay_median, some.delay_p95) == pytest.approx((0.009, 0.018))
    assert some.onset_error_median == pytest.approx(0.002)
    assert some.false_alarms_per_hour == pytest.approx(1.5)
    low, high = some.false_alarms_interval
    # By definition: seeing 3 or more has 2.5 % at the lower rate, 3 or fewer at the upper.
    assert poisson.sf(2, 2.0 * low) == pytest.approx(0.025)
    assert poisson.cdf(3, 2.0 * high) == pytest.approx(0.025)
    worse = summarise([Score((*found[:9], missed), 1, 0, 0)], 0.0)
    assert worse.delay_p95 == np.inf
    content = worse.to_json()
    assert content["delay_p95"] is content["false_alarms_per_hour"] is content["link_named"] is None
    json.dumps(content, allow_nan=False)


REFUSED_LABELS = {
    "another column": ("start,end\n1,2\n", "columns are start, end"),
    "text": (LABELS + "a,1,soon,,\n", "line 2: end is 'soon', not a number"),
    "another recording": (LABELS + "c,1,2,,\n", "line 2: 'c' is none of the recordings .*a.csv"),
    "ends before": (LABELS + "a,2,1,,\n", "line 2: end 1 s is not after begin 2 s"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED_LABELS.values(), ids=REFUSED_LABELS.keys())
def test_refused_labels(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(RecordingError, match=says):
        read_labels(tmp_path / "labels.csv", [Path("x/a.csv"), Path("y/b.csv")])


def test_labels(tmp_path: Path) -> None:
    rows = "a,3,,lower,\na.csv,1,2,,1 2 3\ny/b.csv,1,2,upper,5\n"
    (tmp_path / "labels.csv").write_text(LABELS + rows)
    paths = [Path("x/a.csv"), Path("y/b.csv"), Path("c")]
    first, second, third = read_labels(tmp_path / "labels.csv", paths)
    assert [label[:3] for label in first] == [(1.0, 2.0, ""), (3.0, None, "lower")]
    np.testing.assert_array_equal(first[0].force, [1.0, 2.0, 3.0])
    assert second[0].force is not None
    assert (first[1].force, second[0].link, second[0].force.tolist()) == (None, "upper", [5.0])
    assert third == []
