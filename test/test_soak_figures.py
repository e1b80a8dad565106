"""Counts of the soak: what a node told over all its lives, contacts, pauses of the machine."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.soak.faults import FaultyWriter, Order
from bench.soak.figures import (
    Contacts,
    Gaps,
    Told,
    Unanswered,
    Unheard,
    Windows,
    matched,
    overlaps,
)
from bench.soak.pauses import LEAST, Pauses, longest_pause, read_pauses, time_paused
from bench.soak.schedule import IN_JOINT_STATES
from bench.soak.verdict import gap_line, samples_line
from rbd_control.ros.messages import Stamp

SECOND = 1_000_000_000

Sent = tuple[Stamp, np.ndarray, np.ndarray, np.ndarray]


class Recorder:
    """A writer of joint states that stores them."""

    def __init__(self, sent: list[Sent]) -> None:
        self._sent = sent

    def publish(
        self, stamp: Any, position: Any = None, velocity: Any = None, effort: Any = None
    ) -> None:
        self._sent.append((stamp, position, velocity, effort))


def is_same(one: Sent, other: Sent) -> bool:
    return one[0] == other[0] and all(
        np.array_equal(a, b) for a, b in zip(one[1:], other[1:], strict=True)
    )


def test_a_restarted_node_counts_on() -> None:
    told = Told(("lost", "old"))
    told.report(0, {"lost": "2", "old": "1", "other": "9"})
    told.report(SECOND, {"lost": "5"})
    told.report(2 * SECOND, {"lost": "1"})
    assert told.total(("lost", "old")) == 5 + 1 + 1


def test_a_restarted_node_may_have_lost_as_much_as_before() -> None:
    told = Told(("lost",))
    told.report(0, {"lost": "1", "accepted": "900000"})
    told.report(SECOND, {"lost": "1", "accepted": "700"})
    told.report(2 * SECOND, {"lost": "2", "accepted": "1700"})
    assert told.total(("lost",)) == 1 + 2
    assert told.near([SECOND // 2]) == {"lost": 2}
    assert told.reported == 2 * SECOND


def test_every_fault_of_the_joint_states_changes_them() -> None:
    for kind, fault in IN_JOINT_STATES.items():
        sent: list[Sent] = []
        writer = FaultyWriter(Recorder(sent))
        sound = [(Stamp(9, 0), np.zeros(2), np.ones(2), np.ones(2)) for _ in range(2)]
        sound[1] = (Stamp(9, 1_000_000), np.full(2, 0.1), np.full(2, 2.0), np.full(2, 3.0))
        writer.publish(*sound[0])
        writer.obey(Order(kind, 1, 1))
        writer.publish(*sound[1])
        assert fault.lasts > 0.0
        assert len(sent) == 1 or not is_same(sent[1], sound[1]), kind
        writer.publish(*sound[1])
        assert is_same(sent[-1], sound[1]), kind
    writer.obey(Order("unknown", 1, 1))
    with pytest.raises(ValueError, match="no fault 'unknown'"):
        writer.publish(*sound[1])


def test_a_sample_without_answer_comes_with_what_was_counted_near_it() -> None:
    told = Told(("lost", "same stamp"))
    told.report(SECOND, {"same stamp": "1"})
    told.report(2 * SECOND, {"same stamp": "1"})
    told.report(10 * SECOND, {"same stamp": "4"})
    unanswered = Unanswered(Windows())
    for number in range(3):
        unanswered.sample(number, 9 * SECOND + number)
    unanswered.answer(1)
    unanswered.settle(20 * SECOND)
    assert unanswered.missing == 2
    near = told.near(unanswered.times)
    line = samples_line("detector", unanswered, told.total(("lost",)), 0, near)
    assert line.measured == 2
    assert "near them it counted same stamp 3" in line.remark


def test_an_answer_that_does_not_arrive_is_no_lost_sample() -> None:
    unanswered, unheard = Unanswered(Windows()), Unheard()
    for number in range(4):
        unanswered.sample(number, number)
    for number, publisher in ((7, b"a"), (9, b"a"), (3, b"b"), (4, b"b")):
        unheard.message(
            {"publication_sequence_number": number, "publisher_gid": {"data": publisher}}
        )
    unheard.message({})
    for stamp in (0, 1, 2):
        unanswered.answer(stamp)
    unanswered.settle(20 * SECOND)
    assert unheard.count == 1
    assert samples_line("detector", unanswered, 0, unheard.count, {}).measured == 0
    assert samples_line("detector", unanswered, 0, 0, {}).measured == 1


def test_a_gap_in_which_torques_were_sent_shows_nothing() -> None:
    windows = Windows()
    gaps = Gaps(windows, 0.05, 0.001)
    for sent, lost in ((1.0, 0), (1.2, 150), (1.21, 0), (1.3, 20), (1.34, 0)):
        gaps.message(round(sent * SECOND), lost)
    windows.open(round(1.35 * SECOND))
    gaps.message(round(1.7 * SECOND), 0)
    assert [gap[2:] for gap in gaps.over] == [(False, True), (False, False), (True, False)]
    assert gaps.largest == pytest.approx(0.09)
    for over, by_machine, unheard, is_met, is_missed in (
        (0, 0, 0, True, False),
        (2, 2, 0, True, False),
        (2, 1, 0, False, True),
        (2, 2, 1, False, False),  # this run cannot show it
        (2, 1, 1, False, True),
    ):
        line = gap_line(0.09, over, by_machine, unheard, 0.05)
        assert (line.met, line.missed) == (is_met, is_missed)


def test_an_impact_on_the_arms_own_stop_is_no_false_contact() -> None:
    # After a fault the safe torque is zero, and the falling arm hits a stop: a real torque.
    push, impact = (10 * SECOND, 11 * SECOND), (20 * SECOND, 20 * SECOND + 5_000_000)
    at = (10 * SECOND + 12_000_000, 20 * SECOND + 9_000_000, 30 * SECOND)
    match = matched([push], at, [impact])
    assert match.delays == (0.012,)
    assert match.false == (30 * SECOND,)
    assert matched([push], at).false == at[1:]
    assert not match.missed
    assert overlaps(impact, [push, (0, SECOND), (20 * SECOND + 5_000_000, 21 * SECOND)])
    assert not overlaps(impact, [push])


def test_a_contact_may_have_begun_with_a_force_that_did_not_arrive() -> None:
    """Its event was false, because it came before the first force that arrived."""
    contacts = Contacts(1_000_000)
    for k in range(40):
        contacts.force(10 * SECOND + k * 1_000_000, 11 * SECOND)
    for k in range(14, 40):
        contacts.force(20 * SECOND + k * 1_000_000, 22 * SECOND, 14 if k == 14 else 0)
    contacts.force(20 * SECOND + 89_000_000, 22 * SECOND, 49)  # a gap is no end
    contacts.finish()
    first, second = contacts.intervals
    assert first == (10 * SECOND, 10 * SECOND + 39_000_000)
    assert second == (20 * SECOND, 20 * SECOND + 89_000_000)
    assert contacts.sent == {first[0]: 11 * SECOND, second[0]: 22 * SECOND}
    at = (10 * SECOND + 9_000_000, 20 * SECOND + 11_000_000)
    assert matched(contacts.intervals, at).false == ()
    # The forces that did not arrive may have been the last ones of the contact before.
    contacts.force(20 * SECOND + 150_000_000, 22 * SECOND, 1000)
    contacts.finish()
    assert contacts.intervals[2] == (20 * SECOND + 89_000_001, 20 * SECOND + 150_000_000)


def test_time_paused_is_that_of_the_worst_processor(tmp_path: Path) -> None:
    file = tmp_path / "pauses.0"
    file.write_text(f"0 {SECOND}\n{3 * SECOND} {4 * SECOND}\n5")
    first = read_pauses(file)
    assert first == [(0, SECOND), (3 * SECOND, 4 * SECOND)]
    assert read_pauses(tmp_path / "missing") == []
    second = [(SECOND // 2, 3 * SECOND)]
    assert time_paused([first, second], SECOND // 2, 2 * SECOND) == 1.5
    assert time_paused([first, second], 3 * SECOND, 9 * SECOND) == 1.0
    assert time_paused([first, second], 6 * SECOND, 9 * SECOND) == 0.0
    assert longest_pause([first, second]) == 2.5
    assert longest_pause([[], []]) == 0.0


def test_a_process_that_cannot_run_is_a_pause(tmp_path: Path) -> None:
    pauses = Pauses(tmp_path)
    try:
        stopped = pauses._processes[0]
        deadline = time.monotonic() + 60.0
        while pauses.watches and os.sched_getscheduler(stopped.pid) != os.SCHED_FIFO:
            assert time.monotonic() < deadline  # a busy machine takes seconds to start Python
            time.sleep(0.01)
        time.sleep(0.1)
        if not pauses.watches:
            pytest.skip("no permission for real-time priority")
        begin = time.time_ns()
        os.kill(stopped.pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(stopped.pid, signal.SIGCONT)
        end = time.time_ns()
        deadline = time.monotonic() + 60.0
        while time_paused(pauses.of_processors()[:1], begin, end) < 0.2 - 2.0 * LEAST:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        pauses.stop()
    assert not pauses.watches
