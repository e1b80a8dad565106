"""Refusal of robots that an algorithm of the papers does not cover."""

from __future__ import annotations

from rbd_control.dynamics.model import Model
from rbd_control.errors import InputError


def refuse_mimics(model: Model, what: str) -> None:
    """Raise an error for a model in which a joint mimics another.

    Args:
        model: the robot.
        what: name of the calling function, for the message.

    Raises:
        InputError: naming the first such joint.
    """
    if model.mimic_joints:
        raise InputError(
            f"{what}: joint {model.mimic_joints[0]!r} mimics another, and each body must have a "
            f"joint of its own; lock it"
        )
