"""Counts of the soak: what a node told over all its lives."""

from bench.soak.figures import Told, Unanswered, Windows
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
