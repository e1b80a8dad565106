"""The view at one instant: probabilities, history, playhead, texts."""

from __future__ import annotations

import math
from dataclasses import replace

import contact_event
import pytest

from rbd_control.view.panel import events_html, figures_html, verdict_html
from rbd_control.view.state import (
    ArmState,
    Playhead,
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


def test_texts_of_messages_are_escaped() -> None:
    hostile = replace(EVENT, link=HOSTILE, candidates=(HOSTILE, HOSTILE + "2"), joint=HOSTILE)
    touch = Touch(HOSTILE, probabilities(hostile), None, None)
    state = ArmState(0.0, verdict="contact", touch=touch, mode=HOSTILE, notice=HOSTILE)
    for text in (verdict_html(state), figures_html(state), events_html((hostile,), 0)):
        assert "<img" not in text
        assert "&lt;img" in text
