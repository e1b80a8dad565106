"""Counts of the soak: what a node told over all its lives, contacts, pauses of the machine."""

from bench.soak.figures import (
    Contacts,
    Told,
    Unanswered,
    Unheard,
    Windows,
    matched,
)
from bench.soak.verdict import samples_line

SECOND = 1_000_000_000


def test_a_restarted_node_counts_on() -> None:
    told = Told(("lost", "old"))
    told.report(0, {"lost": "2", "old": "1", "other": "9"})
    told.report(SECOND, {"lost": "5"})
    told.report(2 * SECOND, {"lost": "1"})
    assert told.total(("lost", "old")) == 5 + 1 + 1


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
