"""The joints of a recording and the joints of a description: choice, matching by prefix."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from os.path import commonprefix
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning, RecordingError
from rbd_control.files.input_files import about
from rbd_control.joint_states import JointBlock
from rbd_control.joint_states.prefix import names_with_other_prefix
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.robot.joint_choice import FARTHEST, MOST_JOINTS, ReportedJoints
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.wording import listed, shortened

STILL = 0.01
"""Largest range of positions of a joint that counts as standing still [rad or m]."""

CARRIER_MOVES = 0.05
"""Range of a locked joint that carries the arm above which calibrate refuses it [rad or m].

The direction of gravity for the arm is then wrong by as much, and so are its torques by a twentieth
of the weight. A joint that a controller holds moves less.
"""


class PositionRange(NamedTuple):
    """First, lowest and highest position of a joint in all recordings [rad or m]."""

    first: float
    lowest: float
    highest: float


class RecordedJoints:
    """Joints in recordings: the joints whose effort is recorded, and the positions of the others.

    The methods correspond to the arguments ``measured`` and ``reported`` of
    :meth:`~rbd_control.robot.Robot.of`. The recordings are read when a result is first needed. If
    they have none of the model's names, names that differ by one prefix (``panda_joint1``,
    ``fer_joint1``) count as the same.

    Args:
        recordings: recordings from :func:`~rbd_control.playback.recording.read_recording`.

    Raises:
        RecordingError: from the methods, naming the file, if a recording is damaged.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings

    def measured(self, model: Model) -> tuple[str, ...]:
        """Return the joints of a model whose effort is recorded, in the order of the model.

        If the recordings contain no effort at all, these are all joints of the model that are
        recorded.

        Raises:
            InputError: if several messages have efforts of different joints, and it is doubtful
                which of them are the arm, see :meth:`ReportedJoints.chosen`.
        """
        names = self._names(model.joint_names)
        renamed = self._reported.renamed({recorded: name for name, recorded in names.items()})
        return renamed.chosen(model) or tuple(
            name for name, recorded in names.items() if recorded in self._candidates
        )

    def positions(self, model: Model) -> dict[str, float]:
        """Return the first recorded position of each joint of ``model`` that is in the recordings.

        A node locks a joint without effort at the position that it has when the node is configured.
        For a recording, this is the first position.

        Returns:
            Positions by joint name [rad or m]; joints that no recording contains are left out.
        """
        return {name: of.first for name, of in self._ranges_of(model.joint_names).items()}

    def moving(self, robot: Robot) -> dict[str, PositionRange]:
        """Return the positions of the joints of ``robot.reported`` that move in the recordings.

        The arm's model holds these joints at a fixed position. A joint moves if its positions span
        more than :data:`STILL`.
        """
        if not robot.reported:
            return {}
        return {
            name: of
            for name, of in self._ranges_of((*robot.model.joint_names, *robot.held)).items()
            if name in robot.reported and of.highest - of.lowest > STILL
        }

    def locked_elsewhere(
        self, robot: Robot, locked: Mapping[str, float]
    ) -> dict[str, PositionRange]:
        """Return the recorded positions of locked joints that are not where they are locked.

        These joints move in the recordings by more than :data:`STILL`; or they carry the arm and
        are farther than this from their locked positions.

        Args:
            robot: the arm.
            locked: positions of locked joints in addition to the robot's parameters, by name
                [rad or m].
        """
        still = {**robot.parameters.locked, **locked}
        if not still:
            return {}
        every = (*robot.model.joint_names, *robot.held, *still)
        if not {self._names(every).get(name) for name in still} & set(self._recorded):
            return {}  # without reading the recordings
        carrying = robot.carrying(still)
        found: dict[str, PositionRange] = {}
        for name, of in self._ranges_of(every).items():
            if name not in still:
                continue
            distance = max(of.highest - still[name], still[name] - of.lowest)
            if of.highest - of.lowest > STILL or (name in carrying and distance > STILL):
                found[name] = of
        return found

    @property
    def _reported(self) -> ReportedJoints:
        """Joints with effort in the whole recordings, by recorded name."""
        return self._read[0]

    @property
    def _ranges(self) -> dict[str, PositionRange]:
        """Positions of each joint in the whole recordings, by recorded name."""
        return self._read[1]

    @property
    def _candidates(self) -> Collection[str]:
        """Recorded names among which the arm is: joints with effort, else all joints."""
        return frozenset().union(*self._reported.measured) or self._ranges

    @property
    def _recorded(self) -> Collection[str]:
        """Names of all recorded joints."""
        return {name for recording in self._recordings for name in recording.joint_names}

    @cached_property
    def _read(self) -> tuple[ReportedJoints, dict[str, PositionRange]]:
        """The content of both properties, from one pass over the recordings.

        The whole recordings are read, because the messages of a gripper that started before the arm
        may fill the beginning.
        """
        reported, ranges = ReportedJoints(), dict[str, PositionRange]()
        for recording in self._recordings:
            with about(recording.path):
                for block in recording.blocks():
                    _add(block, ranges)
                    _add_efforts(block, reported)
        return reported, ranges

    def _ranges_of(self, names: Sequence[str]) -> dict[str, PositionRange]:
        """Return the positions of those joints of a robot that are recorded."""
        return {
            name: self._ranges[recorded]
            for name, recorded in self._names(names).items()
            if recorded in self._ranges
        }

    def _names(self, names: Sequence[str]) -> dict[str, str]:
        """Return by joint of a robot the name that it would have in the recordings."""
        if not set(names) & set(self._candidates):
            own, other = _prefixes(names, self._candidates)
            return {name: other + name[len(own) :] for name in names if name.startswith(own)}
        return {name: name for name in names}


def _add(block: JointBlock, ranges: dict[str, PositionRange]) -> None:
    """Add the positions in a block of messages; ignore impossible positions."""
    if block.position.shape[1] != len(block.name):
        return
    for name, column in zip(block.name, block.position.T, strict=True):
        possible = column[np.abs(column) <= FARTHEST]  # False for NaN
        if not possible.size or (name not in ranges and len(ranges) >= MOST_JOINTS):
            continue
        known = ranges.get(name, PositionRange(float(possible[0]), np.inf, -np.inf))
        ranges[name] = PositionRange(
            known.first,
            min(known.lowest, float(possible.min())),
            max(known.highest, float(possible.max())),
        )


def _add_efforts(block: JointBlock, reported: ReportedJoints) -> None:
    """Add the joints with effort in a block of messages."""
    finite = np.isfinite(block.effort)
    largest = np.abs(block.effort).max(axis=0, initial=0.0, where=finite)
    sets = finite[:1] if finite.all() else np.unique(finite, axis=0)
    for each in sets:
        reported.add_efforts(block.name, np.where(each, largest, np.nan).tolist())


def joints_to_play(recording: str, topic: str, arm: RobotParameters) -> tuple[str, ...]:
    """Return the parameter ``joints`` for nodes that process a recording of an arm.

    Args:
        recording: path of the recording.
        topic: topic of the joint states in it.
        arm: description, locked joints, and ``joints``, which select the joints if they are given.

    Returns:
        The joints that the nodes must not fix: ``arm.joints`` if given, otherwise the joints whose
        effort is recorded, see :meth:`RecordedJoints.measured`. Empty if no joint is to be fixed.

    Raises:
        RbdControlError: if the recording or the description cannot be read, or if it is doubtful
            which joints are the arm.
    """
    with warnings.catch_warnings():
        # The node itself warns about its description.
        warnings.simplefilter("ignore", ModelWarning)
        recorded = RecordedJoints([read_recording(recording, topic)])
        robot = Robot.of(arm, measured=recorded.measured)
    return robot.joints if robot.held else ()


def _prefixes(names: Collection[str], recorded: Collection[str]) -> tuple[str, str]:
    """Return a prefix of ``names`` and the prefix that replaces it in ``recorded``.

    These are the two prefixes that match the most names; both are empty if none matches.
    """
    best, most = ("", ""), 0
    for name in names:
        for other in recorded:
            size = len(commonprefix([name[::-1], other[::-1]]))
            own, theirs = name[: len(name) - size], other[: len(other) - size]
            found = sum(
                1
                for each in names
                if size and each.startswith(own) and theirs + each[len(own) :] in recorded
            )
            if found > most:
                best, most = (own, theirs), found
    return best


def match_joints(
    model: Sequence[str],
    recorded: Sequence[str],
    joints: Sequence[str] | None = None,
    *,
    others: Collection[str] = (),
) -> tuple[tuple[str, ...], list[str]]:
    """Return the recorded names of the model's joints, in the model's order, and notes.

    Args:
        model: names of the model's joints.
        recorded: names of the joints in the recording.
        joints: the recorded names of the model's joints, in the model's order. If None, the names
            of the model are used; if the recording contains none of these names, the set of names
            that differ from them by one prefix (``panda_joint1``, ``fer_joint1``) is used, if there
            is exactly one.
        others: the other joints of the description, held and fixed joints included; a set of names
            that belongs to them is not used, because they may be another arm.

    Returns:
        The names, and a list with a note for the user if another prefix was used; else empty.

    Raises:
        RecordingError: naming the joints that the recording lacks, or if ``joints`` has another
            number of names than ``model``.
    """
    if joints is not None:
        if len(joints) != len(model):
            raise RecordingError(
                f"{len(joints)} names are given for the model's {len(model)} joints "
                f"({listed(model)})"
            )
        return _present(model, tuple(joints), recorded, others), []
    if not set(model) & set(recorded):
        fitting = names_with_other_prefix(model, recorded, others)
        if len(fitting) == 1:
            return fitting[0], [
                f"joint names differ by a prefix: {fitting[0][0]} in the recording is taken for "
                f"{model[0]} of the model, and so on"
            ]
    return _present(model, tuple(model), recorded, others), []


def _present(
    model: Sequence[str],
    names: tuple[str, ...],
    recorded: Sequence[str],
    others: Collection[str],
) -> tuple[str, ...]:
    missing = [
        (joint, name) for joint, name in zip(model, names, strict=True) if name not in recorded
    ]
    if missing:
        remedy = f"hold joints that do not move: --lock {shortened(missing[0][0], 30)}=POSITION"
        if len(missing) == len(names):
            remedy = "is this its URDF? --recorded-joints maps other names"
            if recorded and set(recorded) <= set(others):
                remedy = "these are other joints of its URDF; name those of the arm in joints"
        lacks = listed((name for _, name in missing), 50)
        raise RecordingError(
            f"has no joint {lacks}; its joints are {listed(recorded, 50)}; {remedy}"
        )
    return names
