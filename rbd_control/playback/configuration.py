"""The arm and its parameters from the files that a command receives; the arm to calibrate."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rbd_control.dynamics import Model
from rbd_control.dynamics.urdf import parse_urdf
from rbd_control.errors import InputError, ModelWarning, ParameterError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.identification.threshold_calibration import START, CalibratedParameters
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.recorded_joints import CARRIER_MOVES, PositionRange, RecordedJoints
from rbd_control.playback.recording import DESCRIPTION_TOPIC, Recording
from rbd_control.robot.effort import EffortParameters
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot, beside, described_by, robot_parameters
from rbd_control.robot.robot_parameters import DescriptionParameters, RobotParameters
from rbd_control.wording import shortened

NODE = "contact_detector"
"""Node whose section of a parameter file the commands read."""
YAML = (".yaml", ".yml")
"""Suffixes of parameter files."""


class DescribedArm(NamedTuple):
    """An arm as described by the files that a command receives.

    Attributes:
        arm: parameters of the arm, which name or contain its URDF.
        config: the parameter file; None if none was given.
        values: all values by name that the parameter file has for the node ``contact_detector``,
            parameters of the arm included; empty without a file.
    """

    arm: RobotParameters
    config: Path | None
    values: Mapping[str, Any]


def described_arm(urdf: str, config: Path | None) -> DescribedArm:
    """Return the arm in the files of a command; without description if no file has it.

    Args:
        urdf: path of the description, or of a parameter file that names it; may be empty.
        config: parameter file; None for defaults.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    if config is None and urdf.endswith(YAML):
        config, urdf = Path(urdf), ""
    if config is None:
        return DescribedArm(described_by(urdf), None, {})
    values = read_parameter_file(config, NODE)
    with about(config):
        arm = robot_parameters(values)
        arm = described_by(urdf, arm) if urdf else beside(arm, config)
    return DescribedArm(arm, config, values)


def _with_description(arm: RobotParameters, recordings: Sequence[Recording]) -> RobotParameters:
    """Return an arm with the description in its recordings, unless a file describes it.

    Raises:
        ParameterError: if there is no description.
        RecordingError: naming a recording with another description than one before.
        ModelError: naming the recording whose description is no URDF.
    """
    if arm.urdf or arm.robot_description:
        return arm
    found = ""
    for recording in recordings:
        text = recording.description
        with about(recording.path):
            if text and found and text != found:
                raise RecordingError(
                    "has another robot description than the recordings before it; give --urdf"
                )
            if text and not found:
                parse_urdf(text)
        found = found or text
    if not found:
        raise ParameterError(
            "no arm: give --urdf FILE, or a parameter file with urdf: FILE in its section /**"
            + (f"; the recording has no topic /{DESCRIPTION_TOPIC}" if recordings else "")
        )
    return replace(arm, robot_description=found)


def configured(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    recordings: Sequence[Recording] = (),
) -> tuple[Model, DetectorParameters]:
    """Return the model and the detector's parameters as the node creates them from these files.

    Args:
        urdf: path of the description, or of a parameter file that names it; empty: the
            description that ``config`` names, or that is in the recordings.
        config: parameter file; None for defaults.
        locked: positions of joints that do not move [rad or m].
        recordings: the recordings that determine the joints of the arm and the positions of the
            joints that do not move; without any, as for a node without joint states.

    Returns:
        The identified model, and the parameters with per-joint values in the order of the model.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    robot, parameters = configured_robot(urdf, config, locked, recordings)
    return robot.model, parameters


def configured_robot(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    recordings: Sequence[Recording] = (),
) -> tuple[Robot, DetectorParameters]:
    """Return the same as :func:`configured`, with the arm in place of its model.

    A ``ModelWarning`` names joints that are held at a fixed position.

    Raises:
        RbdControlError: for an invalid file; the message names it.
    """
    described, config, values = described_arm(urdf, config)
    with about(config) if config else nullcontext():
        arm = _with_description(described, recordings)
        parameters = law_parameters(DetectorParameters, values)
        recorded = RecordedJoints(recordings)
        robot = Robot.of(
            arm, locked=locked, reported=recorded.positions, measured=recorded.measured
        )
        say_held(robot, recorded)
        say_locked(robot, recorded, locked)
        if config:
            parameters = robot.in_model_order(parameters)
            ContactDetector(robot.model, parameters)  # refuses parameters that do not fit the model
    return robot, parameters


def say_held(robot: Robot, recorded: RecordedJoints) -> None:
    """Warn about joints that the model holds at a fixed position, by a ``ModelWarning``.

    A second ``ModelWarning`` names those of these joints that move in the recordings.
    """
    if not robot.held:
        return
    warnings.warn(f"held joints: {robot.held_in_words}", ModelWarning, stacklevel=2)
    moving = recorded.moving(robot)
    if moving:
        text = (
            "held joints move in the recordings, and the model is wrong while they are elsewhere; "
            "use recordings in which they stand still, or name them in joints: "
            f"{positions_in_words(moving)}"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)


def say_locked(robot: Robot, recorded: RecordedJoints, locked: Mapping[str, float]) -> None:
    """Warn about locked joints that are elsewhere in the recordings, by a ``ModelWarning``.

    Args:
        robot: the arm.
        recorded: the joints of the recordings.
        locked: positions of locked joints in addition to the robot's parameters [rad or m].
    """
    elsewhere = recorded.locked_elsewhere(robot, locked)
    if elsewhere:
        text = (
            "locked joints are not at their locked positions in the recordings, and the model is "
            "wrong there; use recordings in which they stand there, or take them out of "
            f"locked_joints (--lock): {positions_in_words(elsewhere)}"
        )
        warnings.warn(text, ModelWarning, stacklevel=2)


def positions_in_words(joints: Mapping[str, PositionRange]) -> str:
    """Return joints with their lowest and highest recorded positions as text."""
    return ", ".join(
        f"{name} between {of.lowest:.4g} and {of.highest:.4g}" for name, of in joints.items()
    )


@contextmanager
def physical(model: Model) -> Iterator[None]:
    """Convert a ``ParameterError`` raised inside the ``with`` block to an error about the efforts.

    In a calibration a ``ParameterError`` means that an identified value lies outside the bounds of
    its parameter.

    Args:
        model: the robot, for the name of the joint in the message.

    Raises:
        RecordingError: advising to check sign and unit of the recorded efforts.
    """
    try:
        yield
    except ParameterError as error:
        which = re.sub(
            r"\[(\d+)\]",
            lambda found: f" of {shortened(model.joint_names[int(found[1]) % model.nv], 30)}",
            error.message,
        )
        raise RecordingError(
            f"an identified value is not physical: {which}; check sign and unit of its efforts"
        ) from error


@dataclass(frozen=True)
class EffortOptions:
    """Options of a command that override the effort that the arm file declares.

    Attributes:
        kind: kind of the recorded effort, see ``effort_kind``; None for the kind in the file.
        gain: torque per unit of effort, one number, or one per joint in the order of ``joints``;
            None for the gain in the file. For currents, 1 means that the gain is identified.
        has_evidence: whether the command has data from which gains are identified: known payloads
            (``--payload-recording``) or known gains (``--drive-gain``).

    Raises:
        InputError: if ``has_evidence``, but ``gain`` is given or ``kind`` is another than
            ``current``.
    """

    kind: str | None = None
    gain: tuple[float, ...] | None = None
    has_evidence: bool = False

    def __post_init__(self) -> None:
        self._refuse_unused_evidence(self.kind or "current")

    def applied(self, robot: Robot, file: str) -> Robot:
        """Return the arm with these options; warn if they contradict the arm file.

        Without ``gain``, the gain in the file is kept; it becomes 1 if ``has_evidence``, or if the
        unit of the effort differs from the file (current instead of torque, or the reverse).

        Args:
            robot: the arm with the effort of the file.
            file: name of the arm file for the warning, a ``ModelWarning``; empty for no warning.

        Raises:
            InputError: if ``has_evidence``, but the kind (of these options; of the file if they
                have none) is not ``current``.
            ParameterError: if the number of gains is neither one nor the number of joints.
        """
        known = robot.in_joint_order(robot.parameters)
        kind = self.kind or known.effort_kind
        self._refuse_unused_evidence(kind)
        same_unit = (kind == "current") == (known.effort_kind == "current")
        gain = known.effort_gain if same_unit and not self.has_evidence else (1.0,)
        chosen = replace(known, effort_kind=kind, effort_gain=self.gain or gain)
        if chosen.effort_gain != known.effort_gain:
            chosen = replace(chosen, effort_gain_error=(0.0,))
        result = robot.with_parameters(chosen)
        if file and _effort_in_words(chosen) != _effort_in_words(known):
            text = (
                f"{file} declares {_effort_in_words(known)}; the options of the command override "
                f"this: {_effort_in_words(chosen)}"
            )
            warnings.warn(text, ModelWarning, stacklevel=2)
        return result

    def _refuse_unused_evidence(self, kind: str) -> None:
        if self.has_evidence and (kind != "current" or self.gain is not None):
            raise InputError(
                "--payload-recording and --drive-gain are for gains that are to be identified: "
                "give --effort current, and no --effort-gain"
            )


def _effort_in_words(effort: EffortParameters) -> str:
    """Return kind and gain of an effort as text."""
    gains = effort.effort_gain
    if len(set(gains)) == 1:
        gains = gains[:1]
    return f"effort_kind {effort.effort_kind}, effort_gain {', '.join(f'{g:g}' for g in gains)}"


def arm_to_calibrate(
    urdf: str,
    locked: Mapping[str, float],
    recordings: Sequence[Recording],
    effort: EffortOptions,
) -> Robot:
    """Return the arm of recordings without the parameters that the calibration identifies.

    Parameters are read as by the detector: from the sections ``/**`` and ``contact_detector``. A
    ``ModelWarning`` names joints that are held at a fixed position, and locked joints that are
    elsewhere in the recordings.

    Args:
        urdf: path of the description, or of a parameter file that names it (the arm file); empty:
            the description in the recordings.
        locked: positions of joints that do not move, by name [rad or m].
        recordings: the recordings, which determine the joints of the arm and the positions of the
            joints that do not move.
        effort: options that override the effort of the arm file.

    Raises:
        RbdControlError: for an invalid file, which the message names, or options that do not fit.
        RecordingError: if a locked joint that carries the arm moves in the recordings.
    """
    recorded = RecordedJoints(recordings)
    arm = _with_description(described_arm(urdf, None).arm, recordings)
    robot = Robot.of(arm, locked=locked, reported=recorded.positions, measured=recorded.measured)
    say_held(robot, recorded)
    _refuse_moving_carriers(robot, recorded, locked)
    say_locked(robot, recorded, locked)
    return effort.applied(uncorrected(robot), Path(urdf).name if urdf.endswith(YAML) else "")


def _refuse_moving_carriers(
    robot: Robot, recorded: RecordedJoints, locked: Mapping[str, float]
) -> None:
    """Raise an error if a locked joint that carries the arm moves in the recordings.

    The calibration would fit friction and masses to torques of this motion, and write a model for
    all nodes that holds only while the joint stands at its locked position.
    """
    elsewhere = recorded.locked_elsewhere(robot, locked)
    moving = {
        name: elsewhere[name]
        for name in robot.carrying(elsewhere)
        if elsewhere[name].highest - elsewhere[name].lowest > CARRIER_MOVES
    }
    if moving:
        raise RecordingError(
            f"a locked joint that carries the arm moves: {positions_in_words(moving)}; take it out "
            "of locked_joints (--lock), or use recordings in which it stands still"
        )


def uncorrected(robot: Robot) -> Robot:
    """Return the arm without inertial corrections, rotor inertia and friction.

    The calibration identifies these. Description, payload and effort are kept.
    """
    known = robot.in_joint_order(robot.parameters)
    kept = (
        *DescriptionParameters.names(),
        *PayloadParameters.names(),
        *EffortParameters.names(),
    )
    return robot.with_parameters(RobotParameters(**{name: getattr(known, name) for name in kept}))


def starting_parameters(
    robot: Robot, *, observer: str, gain: float | None, trusted: bool
) -> CalibratedParameters:
    """Return the initial parameters of a calibration, in the order of the model.

    Args:
        robot: the arm, with what its driver publishes.
        observer: value of the parameter ``observer``.
        gain: observer gain [1/s]; None (50 at first) if the calibration chooses it.
        trusted: whether to use the declared effort kind even if the efforts refute it.
    """
    effort = {name: getattr(robot.parameters, name) for name in EffortParameters.names()}
    return replace(
        START,
        **effort,
        observer=observer,
        observer_gain=(gain or 50.0,),
        check_effort_kind=not trusted,
    )
