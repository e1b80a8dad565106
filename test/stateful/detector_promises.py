"""Promises of the contact detector, each a function that is checked after every step."""

from __future__ import annotations

import numpy as np

from stateful.detector_rig import DetectorRig
from stateful.promises import BrokenPromise

PROMISES = []

RECOVERY = 0.7
"""Time of clean joint states, beside settling_time and maximum_gap, after which there must be a
verdict again [s]: the residual of what came before has faded and the contact is released."""


def promise(function):  # type: ignore[no-untyped-def]
    """Add ``function`` to the promises that every step is held to."""
    PROMISES.append(function)
    return function


def check(rig: DetectorRig, ignored: frozenset[str] = frozenset()) -> None:
    """Check the verdicts since the last call against all promises except the ignored ones."""
    for function in PROMISES:
        if function.__name__ in ignored:
            continue
        try:
            function(rig)
        except AssertionError as error:
            raise BrokenPromise(function.__name__, function.__doc__, str(error)) from error


@promise
def residual_is_finite(rig: DetectorRig) -> None:
    """Every residual is finite, whatever came in."""
    for residual in rig.one_by_one.residual:
        assert np.isfinite(residual).all(), residual


@promise
def doubt_is_not_no_contact(rig: DetectorRig) -> None:
    """Without a verdict there is a reason and no contact; with one there is no reason."""
    said = rig.one_by_one
    for valid, contact, reason in zip(said.valid, said.contact, said.reason, strict=True):
        assert valid == (reason == ""), f"valid is {valid} with reason {reason!r}"
        assert valid or not contact, f"contact without a verdict: {reason}"


@promise
def blocks_and_samples_agree(rig: DetectorRig) -> None:
    """However samples are cut into blocks, the verdicts are the same to the last bit."""
    one, block = rig.one_by_one, rig.in_blocks
    assert one.valid == block.valid
    assert one.contact == block.contact
    assert all(map(np.array_equal, one.residual, block.residual)), "residuals differ"
    events = [[(k, x.to_json()) for k, x in said.events] for said in (one, block)]
    assert str(events[0]) == str(events[1])


@promise
def every_message_is_counted(rig: DetectorRig) -> None:
    """Each message is counted once, as accepted or under the reason for its drop."""
    one, block = rig.counted()
    assert one == block == rig.messages, f"{one} and {block} of {rig.messages}"


@promise
def events_come_in_pairs(rig: DetectorRig) -> None:
    """An onset is followed by its own release, with increasing numbers and times."""
    for _, event in rig.one_by_one.events:
        if event.phase == "onset":
            assert rig.open == 0, f"{event.id} begins while {rig.open} lasts"
            assert event.id == rig.newest + 1, f"{event.id} after {rig.newest}"
            assert event.onset <= event.detected
            rig.open = rig.newest = event.id
        else:
            assert event.id == rig.open, f"{event.id} ends while {rig.open} is open"
            assert event.release is not None
            assert event.release >= event.detected, f"ends at {event.release}"
            rig.open = 0
    if rig.one_by_one.contact:
        assert rig.one_by_one.contact[-1] == bool(rig.open), "flag and events differ"


@promise
def clean_data_give_a_verdict(rig: DetectorRig) -> None:
    """On correct joint states there soon is a verdict again, and no contact."""
    p = rig.single.parameters
    if rig.clean > RECOVERY + p.settling_time + p.maximum_gap + 2.0 * p.release_debounce:
        assert rig.one_by_one.valid[-1], rig.one_by_one.reason[-1]
        assert not rig.one_by_one.contact[-1], f"contact: {rig.one_by_one.residual[-1]}"


@promise
def nothing_absurd_is_a_contact(rig: DetectorRig) -> None:
    """No contact begins unless something touches the arm, however absurd a sample is."""
    if not rig.touched:
        onsets = [event for _, event in rig.one_by_one.events if event.phase == "onset"]
        assert not onsets, f"{onsets[0].joint}: {onsets[0].peak_torque:.3g}"
