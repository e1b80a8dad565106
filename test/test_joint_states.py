"""The intake of joint states against faults, and its hot path."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import permutations
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from rbd_control.joint_states import (
    DROPS,
    JUMP_MESSAGES,
    JointBlock,
    JointMessage,
    JointSample,
    JointStateIntake,
)
from rbd_control.joint_states.intake import advice

JOINTS = ("shoulder", "elbow", "wrist")


def message(stamp: float = 10.0, receipt: float | None = None, **changes: Any) -> tuple[Any, ...]:
    fields: dict[str, Any] = {
        "name": list(JOINTS),
        "position": [0.1, 0.2, 0.3],
        "velocity": [1.0, 2.0, 3.0],
        "effort": [4.0, 5.0, 6.0],
        **changes,
    }
    return (stamp, stamp + 1e-4 if receipt is None else receipt, *fields.values())


@dataclass
class Fault:
    """Messages after a good one at 9.0 s, and the expected result for the last of them."""

    messages: list[tuple[Any, ...]]
    reason: str = ""
    stamp: float = 10.0
    missing: tuple[str, ...] = ()
    lacks: str = ""
    remarks: dict[str, int] = field(default_factory=dict)


def one(**changes: Any) -> list[tuple[Any, ...]]:
    return [message(**changes)]


FAULTS = {
    "1 velocity empty": Fault(
        one(velocity=[]), missing=("v",), lacks="velocity", remarks={"velocity missing": 1}
    ),
    "2 effort empty": Fault(
        one(effort=[]), missing=("tau",), lacks="effort", remarks={"effort missing": 1}
    ),
    "3 NaN effort of one joint": Fault(
        one(effort=[4.0, nan, 6.0]), missing=("tau",), lacks="effort of elbow"
    ),
    "53 infinite effort": Fault(one(effort=[4.0, inf, 6.0]), "too large"),
    "53 velocity of 1e200": Fault(one(velocity=[1.0, 2.0, 1e200]), "too large"),
    "53 position of 1e200": Fault(one(position=[0.1, 1e200, 0.3]), "too large"),
    "4 NaN position": Fault(one(position=[0.1, nan, 0.3]), "not finite"),
    "5 position short": Fault(one(position=[0.1, 0.2]), "lengths"),
    "5 velocity long": Fault(one(velocity=[1.0] * 4), "lengths"),
    "6 other order": Fault(
        one(
            name=["wrist", "shoulder", "elbow"],
            position=[0.3, 0.1, 0.2],
            velocity=[3.0, 1.0, 2.0],
            effort=[6.0, 4.0, 5.0],
        )
    ),
    "7 extra joint": Fault(
        one(
            name=["finger", *JOINTS],
            position=[nan, 0.1, 0.2, 0.3],
            velocity=[nan, 1.0, 2.0, 3.0],
            effort=[nan, 4.0, 5.0, 6.0],
        )
    ),
    "8 duplicate name": Fault(one(name=["shoulder", "elbow", "elbow"]), "duplicate name"),
    "8 duplicate extra": Fault(
        one(name=[*JOINTS, "finger", "finger"], position=[0.0] * 5, velocity=[], effort=[]),
        "duplicate name",
    ),
    "9 a joint missing": Fault(
        one(name=["shoulder", "elbow"], position=[0.0] * 2, velocity=[], effort=[]),
        "missing joint",
    ),
    "10 empty": Fault(one(name=[], position=[], velocity=[], effort=[]), "empty"),
    "11 older stamp": Fault([message(10.0), message(9.5, 10.1)], "old stamp"),
    "12 same stamp": Fault([message(10.0), message(10.0, 10.1)], "same stamp"),
    "14 stamp zero": Fault([message(0.0, 10.2)], stamp=10.1999, remarks={"stamp replaced": 1}),
    "14 stamp in the future": Fault(
        [message(3600.0, 10.2)], stamp=10.1999, remarks={"stamp replaced": 1}
    ),
    "14 zero after zero, same receipt": Fault(
        [message(0.0, 10.2), message(0.0, 10.2)], "same stamp"
    ),
    "15 negative stamp": Fault([message(-1.0, 10.2)], "negative stamp"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_fault(fault: Fault) -> None:
    intake = JointStateIntake(JOINTS)
    assert intake.accept(*message(9.0)) is not None
    sample: JointSample | None = None
    for each in fault.messages:
        sample = intake.accept(*each)

    assert intake.last_reason == fault.reason
    assert intake.missing == fault.lacks
    assert sum(intake.counts[reason] for reason in DROPS) == bool(fault.reason)
    for remark, count in fault.remarks.items():
        assert intake.counts[remark] == count
    if fault.reason:
        assert sample is None
        assert intake.counts[fault.reason] == 1
        assert intake.counts["accepted"] == len(fault.messages)
        after = intake.accept(*message(11.0))
        assert after is not None, "a dropped message must not spoil the next good one"
        return
    assert sample is not None
    assert sample.stamp == pytest.approx(fault.stamp, abs=1e-9)
    np.testing.assert_array_equal(sample.q, [0.1, 0.2, 0.3])
    for name, expected in (("v", [1.0, 2.0, 3.0]), ("tau", [4.0, 5.0, 6.0])):
        if name in fault.missing:
            assert getattr(sample, name) is None
        else:
            np.testing.assert_array_equal(getattr(sample, name), expected)


def test_joints_in_several_messages_are_joined() -> None:
    """Two halves of an arm at 100 Hz, of which one has a gripper and is 4 ms older."""
    messages = []
    for k in range(100):
        t = 10.0 + 0.01 * k
        upper = (t, t, ["wrist", "finger"], [0.3 * t, 0.0], [0.3, 0.0], [6.0, nan])
        lower = (t + 0.004, t + 0.004, ["elbow", "shoulder"], [0.2, 0.1], [2.0, 1.0], [5.0, 4.0])
        messages += [JointMessage(*upper), JointMessage(*lower)]
    intake, blocks = JointStateIntake(JOINTS), JointStateIntake(JOINTS)
    samples = [sample for each in messages if (sample := intake.accept(*each))]
    assert len(samples) == 100
    assert not intake.dropped
    assert intake.parts.age == pytest.approx(0.004)
    for k, sample in enumerate(samples):
        assert sample.stamp == pytest.approx(10.004 + 0.01 * k)
        np.testing.assert_allclose(sample.q, [0.1, 0.2, 0.3 * sample.stamp])
        np.testing.assert_array_equal([sample.v, sample.tau], [[1.0, 2.0, 0.3], [4.0, 5.0, 6.0]])
    found = [s for each in messages for s in blocks.accept_block(JointBlock.of(each))]
    np.testing.assert_array_equal([each.q[0] for each in found], [each.q for each in samples])


def test_a_half_that_ends_ends_the_joint_states() -> None:
    """The old half is never used with the new one, and the advice says why."""
    intake = JointStateIntake(JOINTS)
    half = {"position": [0.1, 0.2], "velocity": [], "effort": []}
    alone = {"position": [0.3], "velocity": [], "effort": []}
    assert intake.accept(*message(10.0, name=["wrist"], **alone)) is None
    for k in range(3, 100):
        lower = message(10.0 + 0.01 * k, name=["shoulder", "elbow"], **half)
        assert intake.accept(*lower) is None
    assert intake.dropped == {"missing joint": 98}
    assert "more than 20 ms apart" in advice("/joint_states", 2, intake)


def test_any_order_gives_the_same_sample() -> None:
    intake = JointStateIntake(JOINTS)
    values = dict(zip(JOINTS, (0.1, 0.2, 0.3), strict=True))
    for k, names in enumerate(permutations(JOINTS)):
        position = array("d", [values[name] for name in names])
        sample = intake.accept(*message(1.0 + k, name=names, position=position))
        assert sample is not None
        np.testing.assert_array_equal(sample.q, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("wrong", [0.0, 1e6])
@pytest.mark.parametrize("latency", [0.002, 0.5, 1e5])
def test_a_stamp_without_meaning_among_good_ones_stays_on_their_clock(
    wrong: float, latency: float
) -> None:
    """The time of receipt was ahead of the stamps that followed, which then seemed a jump back."""
    intake = JointStateIntake(JOINTS, follow_jumps=True)
    stamps = 1e5 + 0.001 * np.arange(60)
    for k, stamp in enumerate(stamps):
        sample = intake.accept(*message(wrong if 20 <= k < 23 else stamp, stamp + latency))
        assert sample is not None
        assert sample.stamp == pytest.approx(stamp, abs=1e-9)
    assert intake.jumps == 0
    assert intake.counts["stamp replaced"] == 3


def test_messages_that_were_overtaken_are_no_jump() -> None:
    """They fill the gap that was there before; two senders whose stamps jitter are none either."""
    for order in ([104, 101, 102, 103, 105], [102, 101, 103, 104, 105]):
        intake = JointStateIntake(JOINTS, follow_jumps=True)
        for k in (*range(101), *order, *range(106, 120)):
            intake.accept(*message(100.0 + 0.001 * k, 100.2))
        assert intake.jumps == 0
        assert intake.last_stamp == pytest.approx(100.119)
        dropped = 3 if order[0] == 104 else 1
        assert intake.counts["old stamp"] == dropped


def test_a_clock_that_goes_back_is_followed_on_request() -> None:
    """The jump is followed at once in simulated time, otherwise if the clock stays back."""
    stamps = 100.0 + 0.001 * np.arange(50)
    for follow in (True, False):
        own = JointStateIntake(JOINTS, follow_jumps=follow)
        sender = JointStateIntake(JOINTS, follow_jumps=follow)
        for stamp in stamps:
            own.accept(*message(stamp))
            sender.accept(*message(stamp))
        again = [own.accept(*message(stamp - 60.0)) for stamp in stamps]
        # The receiver's clock goes on.
        back = [sender.accept(*message(stamp - 60.0, stamp + 0.05)) for stamp in stamps]
        assert (own.jumps, sender.jumps) == (follow, follow)
        assert sum(s is not None for s in again) == (50 if follow else 0)
        assert sum(s is not None for s in back) == (51 - JUMP_MESSAGES if follow else 0)
        if follow:
            assert own.largest_gap == pytest.approx(0.001, abs=1e-6)


def test_a_second_sender_with_another_clock_is_no_jump() -> None:
    """Its old messages come between new ones."""
    intake = JointStateIntake(JOINTS, follow_jumps=True)
    for k in range(100):
        assert intake.accept(*message(100.0 + 0.001 * k)) is not None
        assert intake.accept(*message(50.0 + 0.001 * k, 100.0 + 0.001 * k)) is None
    assert intake.jumps == 0
    assert intake.counts["old stamp"] == 100


def test_rate_and_gaps() -> None:
    intake = JointStateIntake(JOINTS)
    stamps = np.arange(1000) * 0.002
    stamps[500:] += 0.3
    for stamp in stamps:
        intake.accept(*message(float(stamp) + 1.0))
    # The gap counts as 0.1 s and weighs one in a hundred; of that 0.7 % is left after 500 samples.
    assert intake.rate == pytest.approx(500.0, rel=0.01)
    assert intake.gaps == 1
    assert intake.largest_gap == pytest.approx(0.302)
    intake.reset()
    assert intake.counts["accepted"] == 0
    assert intake.accept(*message(0.5)) is not None, "reset forgets the last stamp"
