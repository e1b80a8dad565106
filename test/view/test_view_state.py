"""The view at one instant: probabilities, history, playhead, texts."""

from __future__ import annotations

import math
from dataclasses import replace

import contact_event
import pytest

from rbd_control.view.panel import events_html, figures_html, verdict_html
from rbd_control.view.state import LEAD, ArmState, Playhead, Touch, probabilities

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


def test_texts_of_messages_are_escaped() -> None:
    hostile = replace(EVENT, link=HOSTILE, candidates=(HOSTILE, HOSTILE + "2"), joint=HOSTILE)
    touch = Touch(HOSTILE, probabilities(hostile), None, None)
    state = ArmState(
        0.0, verdict="contact", touch=touch, mode=HOSTILE, friction=HOSTILE, notice=HOSTILE
    )
    for text in (verdict_html(state), figures_html(state), events_html((hostile,), 0)):
        assert "<img" not in text
        assert "&lt;img" in text


def test_a_paused_jump_goes_into_the_contact_and_skips_none() -> None:
    """The second contact is shorter than usual, and begins less than LEAD after the first."""
    short = replace(EVENT, onset=4.3, detected=4.31, release=4.33)
    playhead = Playhead(10.0, [replace(EVENT, onset=4.0, detected=4.01, release=4.2), short])
    playhead.next_event()
    assert playhead.time == pytest.approx(4.0 - LEAD)  # it plays
    playhead.toggle()
    playhead.seek(0.0)
    times = []
    for _ in range(3):
        playhead.next_event()
        times.append(playhead.time)
    assert times == pytest.approx([4.105, 4.32, 4.32])
    playhead.previous_event()
    assert playhead.time == pytest.approx(4.105)
