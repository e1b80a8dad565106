"""A field of a result is declared once: topic, parser, JSON and page follow."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from contact_event import EVENT

from rbd_control.estimation import ContactEvent
from rbd_control.results import key_table, key_values, parsed, plain, value


@dataclass(frozen=True)
class Warmer(ContactEvent):
    """A contact event with one more field, which nothing else knows."""

    heat: float = value("heat of the contact [J]", default=float("nan"), key="contact_heat")


EVENTS = [
    Warmer(**{item.name: getattr(EVENT, item.name) for item in fields(EVENT)}, heat=1.5),
    Warmer(**{item.name: getattr(EVENT, item.name) for item in fields(EVENT)}),
]


@pytest.mark.parametrize("event", EVENTS, ids=["known", "unknown"])
def test_a_new_field_is_published_received_written_and_described(event: Warmer) -> None:
    values = key_values(event)
    assert values["contact_heat"] == ("" if np.isnan(event.heat) else "1.5")
    assert plain(parsed(Warmer, values)) == plain(event)
    known = None if np.isnan(event.heat) else 1.5
    assert json.loads(json.dumps(plain(event), allow_nan=False))["heat"] == known
    assert "| `contact_heat` | always | heat of the contact [J] |" in key_table(Warmer)


def test_a_truth_value_is_a_number_on_the_topic() -> None:
    """It can be plotted, and a detector that does not publish it claims nothing."""
    values = key_values(replace(EVENT, force_settled=True))
    assert values["force_settled"] == "1"
    assert parsed(ContactEvent, values).force_settled
    values.pop("force_settled")
    assert not parsed(ContactEvent, values).force_settled


def test_the_text_of_a_force_says_whether_it_has_settled() -> None:
    release = replace(EVENT, phase="release", release=10.0)
    assert EVENT.force_text == "5.0 N, rising"
    assert release.force_text == "at least 5.0 N"
    assert replace(release, force_settled=True).force_text == "5.0 N"
    assert replace(EVENT, force=None).force_text == ""


def test_a_detector_without_the_field_is_understood() -> None:
    assert np.isnan(parsed(Warmer, key_values(EVENT)).heat)


@pytest.mark.parametrize(
    ("key", "text"),
    [("id", "one"), ("stamp", "inf"), ("force", "1 2"), ("phase", "end"), ("level", "none")],
)
def test_texts_that_no_detector_sends_are_refused(key: str, text: str) -> None:
    with pytest.raises(ValueError, match=".*"):
        ContactEvent.from_values({**key_values(EVENT), key: text})
