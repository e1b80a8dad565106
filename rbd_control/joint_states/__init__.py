"""Joint states from nodes and recordings: decoding, acceptance and plausibility."""

from rbd_control.joint_states.acceptance import (
    DROPS,
    FUTURE_TOLERANCE,
    GAP_PERIODS,
    JUMP_MESSAGES,
    LARGEST,
    REMARKS,
)
from rbd_control.joint_states.intake import JointStateIntake
from rbd_control.joint_states.messages import JointBlock, JointMessage, JointSample, SampleBlock

__all__ = [
    "DROPS",
    "FUTURE_TOLERANCE",
    "GAP_PERIODS",
    "JUMP_MESSAGES",
    "LARGEST",
    "REMARKS",
    "JointBlock",
    "JointMessage",
    "JointSample",
    "JointStateIntake",
    "SampleBlock",
]
