"""Choice of the joints of a description from the joints in a recording, as in live nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from os.path import commonprefix

import numpy as np
from numpy.typing import ArrayLike

from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning
from rbd_control.files.input_files import about
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.robot.joint_choice import ReportedJoints
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters

LOOKED_AT = 2000
"""Number of messages of each recording that are read for the choice."""


def measured_in(recordings: Iterable[Recording]) -> Callable[[Model], tuple[str, ...]]:
    """Return a function that chooses the joints of a model whose effort is in recordings.

    The recordings are read only when the function is called. Without any effort, the recorded
    joints are chosen. If the recordings have none of the model's names, names that differ by one
    prefix (``panda_joint1``, ``fer_joint1``) count as the same.

    Args:
        recordings: recordings from :func:`~rbd_control.playback.recording.read_recording`.

    Raises:
        RecordingError: from the returned function, naming the file, if a recording is damaged.
    """

    def chosen(model: Model) -> tuple[str, ...]:
        reported, recorded = ReportedJoints(), set[str]()
        for recording in recordings:
            recorded.update(recording.joint_names)
            with about(recording.path):
                for message in islice(recording.messages(), LOOKED_AT):
                    reported.add(message.name, _numbers(message.position), _numbers(message.effort))
        names = reported.chosen(model)
        if names:
            return names
        measured = reported.measured or recorded
        same = tuple(name for name in model.joint_names if name in measured)
        return same or _with_other_prefix(model.joint_names, measured)

    return chosen


def _numbers(values: ArrayLike) -> list[float]:
    return np.asarray(values, dtype=float).tolist()


def joints_to_play(recording: str, topic: str, arm: RobotParameters) -> tuple[str, ...]:
    """Return the joints of an arm that can be played from a recording.

    Args:
        recording: path of the recording.
        topic: topic of the joint states in it.
        arm: description, locked joints, and ``joints``, which select the joints if they are given.

    Returns:
        The joints that the recording contains; empty if it contains all movable joints.

    Raises:
        RbdControlError: if the recording or the description cannot be read.
    """
    with warnings.catch_warnings():
        # The node itself warns about its description.
        warnings.simplefilter("ignore", ModelWarning)
        robot = Robot.of(arm, measured=measured_in([read_recording(recording, topic)]))
    return robot.joints if robot.held else ()


def _with_other_prefix(names: Collection[str], recorded: Collection[str]) -> tuple[str, ...]:
    """Return the largest set of names that are recorded with one other prefix, or an empty one."""
    best: tuple[str, ...] = ()
    for name in names:
        for other in recorded:
            size = len(commonprefix([name[::-1], other[::-1]]))
            own, theirs = name[: len(name) - size], other[: len(other) - size]
            found = tuple(
                each
                for each in names
                if size and each.startswith(own) and theirs + each[len(own) :] in recorded
            )
            best = max(best, found, key=len)
    return best
