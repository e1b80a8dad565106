"""``rbd-control replay``: runs recordings through the detector."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from rbd_control.cli.command_files import input_files, refuse_repetition, result_files
from rbd_control.cli.exit_codes import NO_RESULT, complain, progress_bar
from rbd_control.cli.next_command import (
    detector_words,
    print_calibration,
    print_next,
    robot_words,
)
from rbd_control.errors import RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.estimation.thresholds import uncalibrated
from rbd_control.files.output_files import refuse_clashes, write_json
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.measures import FACTORS
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import (
    print_curve,
    print_overview,
    print_result,
    report_files,
    write_report,
)
from rbd_control.playback.result import Overview, ReplayResult
from rbd_control.playback.truth import Label, read_labels
from rbd_control.reports.console import console_for_output
from rbd_control.reports.html import HtmlOutput
from rbd_control.reports.replay_page import ReplayReport
from rbd_control.robot.robot import Robot
from rbd_control.robot.shapes import surface_of_robot


def run_replay(arguments: argparse.Namespace) -> int:
    """Run recordings through the contact detector, print the contacts, and write the reports.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Returns:
        The exit code: 0, or 1 if the detector gave no verdict at all in one of the recordings.

    Raises:
        RbdControlError: for bad input; the message names the file. Also for ``--curve`` without
            true contacts, and if an output would replace an input or another output.
        OSError: naming a result that cannot be written.
    """
    paths = arguments.recordings
    refuse_clashes(
        input_files(arguments, paths), result_files(arguments, "report.html", *report_files(paths))
    )
    refuse_repetition(paths)
    html = HtmlOutput.of_command(arguments, "report.html", "report.json")
    recordings = [read_recording(path, arguments.topic) for path in paths]
    labels = arguments.labels and read_labels(arguments.labels, paths)
    if arguments.curve and not labels and all(r.true_contacts is None for r in recordings):
        raise RecordingError(
            "--curve needs the true contacts, which no recording contains; give --labels"
        )
    locked = dict(arguments.lock)
    robot, parameters = configured_robot(arguments.urdf, arguments.config, locked, recordings)
    if arguments.trust_effort_kind:
        parameters = replace(parameters, check_effort_kind=False)
    console = console_for_output()
    report = ReplayReport(html, robot.model, parameters, len(recordings))
    overview = Overview(
        tuple(_replay_each(recordings, labels, robot, parameters, arguments, console, report))
    )
    several = len(recordings) > 1
    if several:
        print_overview(overview, console)
    print_curve(overview, console)
    outcome = overview if several else overview.results[0]
    report.write(outcome.to_json(), arguments, console)
    if arguments.json:
        write_json(outcome.to_json(), arguments.json)
        console.print(f"JSON in {arguments.json}", markup=False)
    if arguments.report:
        write_report(outcome, arguments.report)
        console.print(f"report in {arguments.report}", markup=False)
    code = _refuse_silence(overview.results)
    doubtful = [result.recording for result in overview.results if result.warnings]
    if doubtful:
        check = ("check", doubtful[0], *robot_words(arguments))
        print_next(console, "the cause of the warnings", *check)
    elif uncalibrated(parameters, robot.model):
        free = [each for each in overview.results if not (each.score and each.score.contacts)]
        recorded = [each.recording for each in free]
        print_calibration(console, arguments, recorded, sum(each.duration for each in free))
    else:
        print_next(console, "the detector beside the robot", *detector_words(arguments))
    return code


def _replay_each(
    recordings: Sequence[Recording],
    labels: Sequence[Sequence[Label]] | None,
    robot: Robot,
    parameters: DetectorParameters,
    arguments: argparse.Namespace,
    console: Console,
    report: ReplayReport,
) -> Iterator[ReplayResult]:
    """Replay the recordings one after the other; print and yield the result of each."""
    surface = surface_of_robot(robot)
    for k, recording in enumerate(recordings):
        with progress_bar("replay", recording.count) as update:
            result = replay(
                recording,
                robot.model,
                parameters,
                surface=surface,
                joints=arguments.joints,
                labels=labels[k] if labels else None,
                factors=FACTORS if arguments.curve else (),
                progress=lambda done: update(completed=done),
                watch=report.watch(k),
            )
        alone = len(recordings) == 1
        print_result(result, console, str(arguments.config or arguments.urdf), alone=alone)
        if not alone:
            console.print()
        yield result


def _refuse_silence(results: Sequence[ReplayResult]) -> int:
    """Return the exit code; print an error for each recording without any valid verdict."""
    silent = [result for result in results if not result.valid_fraction]
    for result in silent:
        why = ", ".join(f"{reason} {time:.2f} s" for reason, time in result.invalid.items())
        complain(f"the detector has no verdict at any time ({why})", result.recording)
    return NO_RESULT if silent else 0
