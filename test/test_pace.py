"""Due times of messages of a recording: loops without floods, delays without backlogs."""

from __future__ import annotations

from itertools import islice
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbd_control.joint_states import JointMessage
from rbd_control.playback.recording import LEAST_SPACING, SLACK, Pace, timeline


def messages(*times: float) -> list[JointMessage]:
    return [JointMessage(t, t + 0.5, ("a",), (0.0,), (), ()) for t in times]


def due(times: tuple[float, ...], count: int) -> list[float]:
    played = timeline(lambda: iter(messages(*times)), loop=True)
    return [elapsed for elapsed, _, _ in islice(played, count)]


def test_a_loop_goes_on_where_the_pass_before_ended() -> None:
    recorded = messages(10.0, 10.1, 10.2)
    played = list(islice(timeline(lambda: iter(recorded), loop=True), 7))
    assert [elapsed for elapsed, _, _ in played] == pytest.approx(
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    )
    stamps = [message.stamp + shift for _, shift, message in played]
    assert stamps == pytest.approx([10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6])
    assert len(list(timeline(lambda: iter(recorded), loop=False))) == 3


def test_nothing_recorded_is_nothing_played_also_in_a_loop() -> None:
    assert due((), 3) == []


@given(st.lists(st.floats(-1e9, 1e9) | st.sampled_from([nan, inf, -inf]), min_size=1, max_size=20))
def test_no_recording_makes_a_flood_or_goes_back(times: list[float]) -> None:
    count = 3 * len(times)
    elapsed = due(tuple(times), count + 1)
    assert all(b >= a for a, b in zip(elapsed, elapsed[1:], strict=False))
    assert elapsed[-1] >= 0.999 * count * LEAST_SPACING


def test_messages_that_a_slow_process_misses_do_not_pile_up() -> None:
    pace = Pace(rate=2.0, began=100.0)
    assert pace.position(101.0) == 2.0
    assert not pace.hold_back(2.0 - SLACK, 101.0)
    # Suspended for an hour: the next message is due now, and the ones behind it in their time.
    assert pace.hold_back(2.0, 3701.0)
    assert pace.position(3701.0) == pytest.approx(2.0)
    assert pace.position(3702.0) == pytest.approx(4.0)
    assert pace.late == pytest.approx(3600.0)
