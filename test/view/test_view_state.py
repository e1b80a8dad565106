"""The view at one instant: probabilities, history, playhead, texts."""

from __future__ import annotations

import math
from dataclasses import replace

import contact_event
import numpy as np
import pytest

from rbd_control.view.panel import event_title, events_html, figures_html, verdict_html
from rbd_control.view.state import (
    LEAD,
    WINDOW,
    ArmState,
    Playhead,
    ResidualHistory,
    Touch,
    probabilities,
)

EVENT = replace(
    contact_event.EVENT,
    id=1,
    phase="release",
    onset=2.0,
    detected=2.1,
    release=2.6,
    candidates=("forearm", "upper", "hand"),
    confidence=0.6,
)
HOSTILE = "<img src=x onerror=alert(1)>"


def test_candidates_share_the_probability_that_the_link_leaves() -> None:
    assert probabilities(EVENT) == pytest.approx({"forearm": 0.6, "upper": 0.2, "hand": 0.2})
    assert probabilities(replace(EVENT, candidates=("forearm",))) == {"forearm": 1.0}
    assert probabilities(replace(EVENT, candidates=(), link="")) == {}
    unknown = probabilities(replace(EVENT, confidence=math.nan))
    assert list(unknown.values()) == pytest.approx([1.0 / 3.0] * 3)


def test_history_keeps_the_last_seconds() -> None:
    history = ResidualHistory()
    assert history.series()[0].size == 0
    for k in range(200):
        history.add(0.1 * k, ("a", "b"), np.array([k, -k], dtype=float))
    times, ratios = history.series()
    assert 19.9 - WINDOW <= times[0] < 19.9 - WINDOW + 0.11
    assert ratios.shape == (len(times), 2)
    assert list(ratios[-1]) == [199.0, -199.0]
    history.add(20.0, ("a",), np.array([1.0]))  # other joints begin anew
    assert history.series()[1].shape == (1, 1)
    history.add(5.0, ("a",), np.array([2.0]))  # and so does a clock that goes back
    assert list(history.series()[0]) == [5.0]


def test_playhead_plays_pauses_and_ends() -> None:
    playhead = Playhead(10.0, [1.0, 4.0, 9.9])
    assert playhead.advance(0.5) == 0.5
    playhead.speed = 2.0
    assert playhead.advance(0.5) == 1.5
    playhead.toggle()
    assert playhead.advance(1.0) == 1.5
    playhead.toggle()
    assert playhead.advance(100.0) == 10.0
    assert not playhead.is_playing
    playhead.toggle()  # begins again
    assert (playhead.time, playhead.is_playing) == (0.0, True)
    playhead.seek(99.0)
    assert playhead.time == 10.0
    playhead.seek(-1.0)
    assert playhead.time == 0.0


def test_playhead_goes_from_event_to_event() -> None:
    playhead = Playhead(10.0, [0.2, 4.0, 9.9])
    playhead.seek(1.0)
    playhead.next_event()
    assert playhead.time == 4.0 - LEAD
    playhead.next_event()
    assert playhead.time == 9.9 - LEAD
    playhead.next_event()
    assert playhead.time == 9.9 - LEAD
    playhead.previous_event()
    assert playhead.time == 4.0 - LEAD
    playhead.previous_event()
    playhead.previous_event()
    assert playhead.time == 0.0
    playhead.go_to_event(7)
    assert playhead.time == 0.0


def test_of_two_events_shortly_after_each_other_none_is_skipped() -> None:
    playhead = Playhead(10.0, [4.0, 4.3])
    playhead.toggle()
    playhead.seek(4.3 - LEAD)
    playhead.previous_event()
    assert playhead.time == 4.0 - LEAD


def test_the_verdict_names_link_probability_and_force() -> None:
    touch = Touch("forearm", probabilities(EVENT), np.array([0.0, 3.0, -4.0]), None)
    text = verdict_html(ArmState(0.0, verdict="contact", touch=touch))
    assert "contact at forearm (60%, else upper or hand)" in text
    assert "<b>5.0 N</b>" in text
    assert "no verdict" in verdict_html(ArmState(0.0))


def test_unknown_figures_are_left_empty() -> None:
    assert figures_html(ArmState(0.0)) == ""
    told = figures_html(ArmState(0.0, mode="hold", tracking_error=0.0021, tank=1.5, notice="late"))
    for part in ("hold", "2.10 mrad", "1.50 J", "late"):
        assert part in told
    assert "storage" not in told


def test_events_are_listed_newest_first_and_the_current_one_is_bold() -> None:
    later = replace(EVENT, id=2, phase="onset", release=None, level="collision", force=None)
    told = events_html((EVENT, later), 1)
    assert told.index("collision 2") < told.index("contact 1")
    first, second = told.split('<tr class="rbd-event">')[1:]
    assert "bold" in first
    assert "bold" not in second
    assert "forearm or upper or hand" in second
    assert "no contact so far" in events_html((), -1)
    assert event_title(EVENT) == "1: 2.00 s contact at forearm"


def test_texts_of_messages_are_escaped() -> None:
    hostile = replace(EVENT, link=HOSTILE, candidates=(HOSTILE, HOSTILE + "2"), joint=HOSTILE)
    touch = Touch(HOSTILE, probabilities(hostile), None, None)
    state = ArmState(0.0, verdict="contact", touch=touch, mode=HOSTILE, notice=HOSTILE)
    for text in (verdict_html(state), figures_html(state), events_html((hostile,), 0)):
        assert "<img" not in text
        assert "&lt;img" in text
