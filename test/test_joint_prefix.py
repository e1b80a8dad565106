"""Joint states whose names differ from the model's by a prefix, live."""

from __future__ import annotations

import pytest

from rbd_control.joint_states.prefix import (
    PATIENCE,
    PrefixMatch,
    belongs_to_others,
    renamed,
)

MODEL = ("joint_1", "joint_2")
LEFT, RIGHT = ("left_joint_1", "left_joint_2"), ("right_joint_1", "right_joint_2")
HAND = ("hand_finger",)


def found(match: PrefixMatch) -> tuple[str, ...] | None:
    """Return the answer, which the type checker cannot see to change."""
    return match.found


def test_a_second_arm_ends_the_match_for_good() -> None:
    match = PrefixMatch(MODEL)
    match.look(LEFT, 0.0)
    assert match.look(LEFT, 2.0 * PATIENCE)
    assert match.look(RIGHT, 60.0)
    assert found(match) is None
    assert match.is_ambiguous
    assert not match.look(LEFT, 120.0)
    assert found(match) is None
    # Both from the beginning, in one message or in two.
    for names in ([(*LEFT, *RIGHT)], [LEFT, RIGHT]):
        match = PrefixMatch(MODEL)
        for k in range(10):
            for order in names:
                match.look(order, 0.5 * k)
        assert found(match) is None


def test_the_names_of_the_model_go_before_all_others() -> None:
    """The arm with the prefix is another one; its joint states were taken all the same."""
    match = PrefixMatch(MODEL)
    match.look(LEFT, 0.0)
    assert match.look(LEFT, 2.0 * PATIENCE)
    assert match.look(MODEL, 60.0)
    assert found(match) is None
    assert not match.is_ambiguous
    for k in range(10):
        assert not match.look(LEFT, 61.0 + k)
        assert not match.look(RIGHT, 61.0 + k)
    assert found(match) is None


def test_joints_of_the_same_description_are_never_taken_for_the_model_s() -> None:
    """They are another arm, and the driver of the own arm is down."""
    match = PrefixMatch(MODEL, (*LEFT, "torso"))
    for k in range(10):
        assert not match.look(("torso", *LEFT), 0.5 * k)
    assert found(match) is None
    assert not match.is_ambiguous
    # They do not keep the names of the own driver from being accepted.
    assert not match.look(RIGHT, 10.0)
    assert match.look(RIGHT, 10.0 + 1.1 * PATIENCE)
    assert found(match) == RIGHT


@pytest.mark.parametrize(
    ("names", "of_left", "of_model"),
    [
        (LEFT, True, False),
        (MODEL, False, True),
        (("left_joint_1", "left_joint_9"), True, False),  # one name is enough
        (("ur_left_joint_1", "ur_left_joint_2"), True, False),  # the longer name fits better
        (("ur_joint_1", "ur_joint_2"), False, True),
        (("ur_joint_1", "ur_joint_9"), False, False),
        (HAND, False, False),
    ],
)
def test_whose_names_they_are(names: tuple[str, ...], of_left: bool, of_model: bool) -> None:
    assert belongs_to_others(names, MODEL, LEFT) is of_left
    assert belongs_to_others(names, LEFT, MODEL) is of_model


def test_a_gripper_s_name_has_the_prefix_of_the_arm_s() -> None:
    panda, fer = ([f"{name}_joint{i}" for i in (1, 2)] for name in ("panda", "fer"))
    assert renamed("panda_finger_joint1", panda, fer) == "fer_finger_joint1"
    assert renamed("finger", MODEL, LEFT) == "left_finger"
    assert renamed("hand_finger", panda, fer) == "hand_finger"
