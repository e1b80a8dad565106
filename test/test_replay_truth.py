"""Replay against labelled contacts: scores, their summary, and the scaled thresholds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drifting_arm import panda
from scipy.stats import poisson
from swinging_arm import (
    LABELS,
    MODEL,
    PARAMETERS,
    recorded,
    swing,
)

from rbd_control.errors import RecordingError
from rbd_control.joint_states import JointBlock
from rbd_control.playback.measures import LatchWatch
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import scores, truth_table
from rbd_control.playback.truth import Label, Score, TrueContact, read_labels, score, summarise
from rbd_control.results import plain


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
    assert [contact.masked for contact in contacts] == [False, True, False, True]
    assert [contact.delay for contact in contacts] == [pytest.approx(0.1), None] * 2
    assert [contact.link_named for contact in contacts] == [True, None, False, None]
    assert [contact.link_among_named for contact in contacts] == [True, None, True, None]
    assert [contact.force_error for contact in contacts] == [pytest.approx(1.0), None, None, None]
    vector = score([labels[2]._replace(start=1.0)], events, 10.0).contacts[0]
    assert vector.force_error == pytest.approx(1.0)


def test_a_latched_flag_finds_nothing() -> None:
    """One event from 2.5 s to the end: of 15 contacts one is found, and 14 are masked."""
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    contacts = [(2.4 + 2.0 * k, 2.9 + 2.0 * k) for k in range(15)]
    latched = [replace(event, detected=2.5, release=None)]
    result = score(contacts, latched, 40.0)
    assert [contact.masked for contact in result.contacts] == [False] + 14 * [True]
    assert {contact.event for contact in result.contacts} == {0}
    assert (result.misses, result.false_events) == (0, 0)
    # From 2.5 s to 40 s, less 0.5 s of the first contact and 0.6 s of each other one.
    assert result.raised_time == pytest.approx(37.5 - 0.5 - 14 * 0.6)
    summary = summarise([result], 20.0)
    assert (summary.contacts, summary.found, summary.masked, summary.misses) == (15, 1, 14, 0)
    said, *_, rate = scores(summary.to_json())
    assert said.startswith("15 true contacts: 1 found, 14 masked")
    assert "the flag was raised for 28.60 s of this time" in rate
    table = truth_table({"contacts": plain(result)["contacts"], "summary": summary.to_json()}, 40.0)
    assert [row.cells[2] for row in table.rows] == ["1"] + 14 * ["masked by 1"]


def test_false_alarm_that_lasts_into_a_contact_masks_it() -> None:
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    result = score([(2.0, 3.0)], [replace(event, detected=1.0, release=4.0)], 10.0)
    assert [(contact.masked, contact.delay) for contact in result.contacts] == [(True, None)]
    assert (result.misses, result.false_events) == (0, 1)
    assert result.raised_time == pytest.approx(1.0 + 0.9)
    again = [replace(event, detected=t, release=t + 1.2) for t in (1.0, 2.5)]
    (contact,) = score([(2.0, 3.0)], again, 10.0).contacts
    assert (contact.masked, contact.event) == (False, 1)
    assert contact.delay == pytest.approx(0.5)


@pytest.mark.parametrize("known", [True, False])
def test_a_flag_that_stays_up_is_a_warning_with_the_remedy(known: bool) -> None:
    """A torque that is missing in the model from 2 s on; two pushes later are masked."""
    messages = swing([(2.0, 9.0, 8.0), (5.0, 5.5, 16.0), (7.0, 7.5, 16.0)], duration=9.0)
    contacts = [Label(5.0, 5.5), Label(7.0, 7.5)] if known else None
    result = replay(recorded(messages), MODEL, PARAMETERS, labels=contacts)
    (text,) = [each for each in result.warnings if "stayed up" in each]
    detected = result.events[0].detected
    assert text.startswith(f"the flag that rose at {detected:.3f} s stayed up for ")
    # 7 s of motion, less two contacts of 0.6 s if they are known.
    lasted = float(text.split("stayed up for ")[1].split()[0])
    assert lasted == pytest.approx(5.8 if known else 7.0, abs=0.1)
    assert ("without contact" in text) is known
    assert ("unless it is one contact" in text) is not known
    if known:
        assert result.summary is not None
        assert (result.summary.found, result.summary.masked) == (0, 2)
    short = replay(recorded(swing([(2.0, 4.0, 8.0)])), MODEL, PARAMETERS)
    assert not any("stayed up" in each for each in short.warnings)


def test_a_flag_that_a_sudden_change_of_friction_raised_names_it() -> None:
    """The detector has recovered; "payload, model or thresholds" would mislead."""
    arm = panda()
    t, *values = arm.samples(80.0, lambda t: np.where(t > 20.0, 0.75, 1.0))
    names = arm.model.joint_names
    part = Part(np.arange(t.size), JointBlock(t, t, names, *values))
    recording = Recording(
        Path("made"), "/joint_states", names, t.size, (), lambda size: iter([[part]])
    )
    result = replay(recording, arm.model, arm.parameters)
    (text,) = [each for each in result.warnings if "stayed up" in each]
    assert "a sudden change of friction is the cause" in text
    assert re.search(r"friction of panda_joint1 is 2\d ± \d+ % below the file", text)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_time_of_a_latched_flag_does_not_depend_on_blocks(size: int) -> None:
    rng = np.random.default_rng(3)
    times = np.linspace(0.0, 29.9, 300)
    raised = np.repeat(rng.random(30) < 0.7, 10)
    raised[80:200] = True
    raised[[79, 200]] = False
    moves = rng.random(300) < 0.6
    watch = LatchWatch()
    for k in range(0, 300, size):
        part = slice(k, k + size)
        watch.add(times[part], 0.1 + 0.0 * times[part], raised[part], moves[part])
    assert watch.longest == pytest.approx(0.1 * moves[80:200].sum())
    assert watch.since == times[80]


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
