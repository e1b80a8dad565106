"""``rbd-control replay``: recordings through the detector, from the command line."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from rbd_control.cli.guard import NO_RESULT, complain
from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning, ParameterError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.files.output_files import prepare_output
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.curve import FACTORS
from rbd_control.playback.labels import read_labels
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import (
    print_curve,
    print_overview,
    print_result,
    write_json,
    write_report,
)
from rbd_control.playback.result import Overview, ReplayResult
from rbd_control.playback.truth import Label
from rbd_control.robot.joint_choice import held_in_words
from rbd_control.robot.robot import Robot, beside, described_by, robot_parameters
from rbd_control.robot.surface import surface_of_robot

_NODE = "contact_detector"
YAML = (".yaml", ".yml")
"""Endings of parameter files."""

_WIDTH = 120


def run_replay(arguments: argparse.Namespace) -> int:
    """Read, replay, print and write.

    Returns:
        0, or 1 when the detector has no verdict at any time in one of the recordings.

    Raises:
        RbdControlError: for bad input; the message names the file.
        OSError: when a result cannot be written.
    """
    if arguments.json:
        prepare_output(arguments.json)
    if arguments.report:
        prepare_output(arguments.report / "report.json")
    recordings = [read_recording(path, arguments.topic) for path in arguments.recordings]
    labels = arguments.labels and read_labels(arguments.labels, arguments.recordings)
    if arguments.curve and not labels and all(r.true_contacts is None for r in recordings):
        raise RecordingError(
            "--curve needs the true contacts, which no recording tells of; give --labels"
        )
    measured = [name for recording in recordings for name in recording.joint_names]
    locked = dict(arguments.lock)
    robot, parameters = configured_robot(arguments.urdf, arguments.config, locked, measured)
    console = console_for_output()
    overview = Overview(
        tuple(_replay_each(recordings, labels, robot, parameters, arguments, console))
    )
    several = len(recordings) > 1
    if several:
        print_overview(overview, console)
    print_curve(overview, console)
    outcome = overview if several else overview.results[0]
    if arguments.json:
        write_json(outcome, arguments.json)
        console.print(f"JSON in {arguments.json}", markup=False)
    if arguments.report:
        write_report(outcome, arguments.report)
        console.print(f"report in {arguments.report}", markup=False)
    return _refuse_silence(overview.results)


def console_for_output() -> Console:
    """Return a console on stdout, wide enough for tables if it is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def configured(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    measured: Sequence[str] = (),
) -> tuple[Model, DetectorParameters]:
    """Return the model and the detector's parameters as the node makes them of the same files.

    Args:
        urdf: path of the description, or of a parameter file that names it.
        config: parameter file; None for defaults.
        locked: positions of joints that do not move [rad or m].
        measured: joints of the recordings, see :meth:`Robot.of`.

    Raises:
        RbdControlError: naming the file at fault.
    """
    robot, parameters = configured_robot(urdf, config, locked, measured)
    return robot.model, parameters


def configured_robot(
    urdf: str,
    config: Path | None,
    locked: Mapping[str, float],
    measured: Sequence[str] = (),
) -> tuple[Robot, DetectorParameters]:
    """Return the arm and the detector's parameters; arguments as :func:`configured`.

    Raises:
        RbdControlError: naming the file at fault.
    """
    if config is None and urdf.endswith(YAML):
        config, urdf = Path(urdf), ""
    if config is None:
        robot = Robot.load(named(urdf), locked=locked, measured=measured)
        say_held(robot)
        return robot, DetectorParameters()
    values = read_parameter_file(config, _NODE)
    with about(config):
        arm = robot_parameters(values)
        arm = described_by(urdf, arm) if urdf else beside(arm, config)
        if not arm.urdf and not arm.robot_description:
            raise ParameterError("names no arm: give --urdf, or urdf in its section /**")
        parameters = law_parameters(DetectorParameters, values)
        robot = Robot.of(arm, locked=locked, measured=measured)
        say_held(robot)
        parameters = robot.in_model_order(parameters)
        ContactDetector(robot.model, parameters)  # refuses parameters that do not fit the model
    return robot, parameters


def say_held(robot: Robot) -> None:
    """Warn of the joints that the description has and the recordings do not."""
    if robot.held:
        text = f"held joints: {held_in_words(robot.held, {})}"
        warnings.warn(text, ModelWarning, stacklevel=2)


def named(urdf: str) -> str:
    """Return the description that was named.

    Raises:
        ParameterError: when none was.
    """
    if not urdf:
        raise ParameterError(
            "no arm: give --urdf FILE, or --config with a parameter file that names it"
        )
    return urdf


def _replay_each(
    recordings: Sequence[Recording],
    labels: Sequence[Sequence[Label]] | None,
    robot: Robot,
    parameters: DetectorParameters,
    arguments: argparse.Namespace,
    console: Console,
) -> Iterator[ReplayResult]:
    """Replay one recording after the other and print what was found in each."""
    surface = surface_of_robot(robot)
    for k, recording in enumerate(recordings):
        with _progress(recording.count) as progress:
            result = replay(
                recording,
                robot.model,
                parameters,
                surface=surface,
                joints=arguments.joints,
                labels=labels[k] if labels else None,
                factors=FACTORS if arguments.curve else (),
                progress=progress,
            )
        print_result(result, console)
        if len(recordings) > 1:
            console.print()
        yield result


def _refuse_silence(results: Sequence[ReplayResult]) -> int:
    """Return the exit code, and say which recordings have no verdict at any time."""
    silent = [result for result in results if not result.valid_fraction]
    for result in silent:
        why = ", ".join(f"{reason} {time:.2f} s" for reason, time in result.invalid.items())
        complain(f"the detector has no verdict at any time ({why})", result.recording)
    return NO_RESULT if silent else 0


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar on stderr, if it is a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True) if console.is_terminal else nullcontext() as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("replay", total=total)
        yield lambda done: bar.update(task, completed=done)
