"""Counts of the soak: what a node told over all its lives."""

from bench.soak.figures import Told, Unanswered, Windows, matched, overlaps
from bench.soak.verdict import samples_line

SECOND = 1_000_000_000


def test_a_restarted_node_counts_on() -> None:
    told = Told(("lost", "old"))
    told.report(0, {"lost": "2", "old": "1", "other": "9"})
    told.report(SECOND, {"lost": "5"})
    told.report(2 * SECOND, {"lost": "1"})
    assert told.total(("lost", "old")) == 5 + 1 + 1


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
    line = samples_line("detector", unanswered, told.total(("lost",)), told.near(unanswered.times))
    assert line.measured == 2
    assert "near them it counted same stamp 3" in line.remark


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
