"""``rbd-control check``: a one-page report on the quality of a recording."""

from __future__ import annotations

import argparse

from rbd_control.check.page import print_check
from rbd_control.check.run import CheckResult, check_recording
from rbd_control.cli.command_files import input_files, result_files
from rbd_control.cli.exit_codes import NO_RESULT
from rbd_control.cli.next_command import print_calibration, print_next, robot_words
from rbd_control.files.output_files import refuse_clashes, write_json
from rbd_control.playback.configuration import YAML, configured
from rbd_control.playback.recording import read_recording
from rbd_control.reports.check_page import check_page
from rbd_control.reports.console import console_for_output
from rbd_control.reports.html import HtmlOutput, analysed_now


def run_check(arguments: argparse.Namespace) -> int:
    """Check one recording, print the findings, and write the requested JSON and HTML files.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Returns:
        The exit code: 0, or 1 if a finding has the level ``bad`` (a red line, ``WRONG``).

    Raises:
        RbdControlError: for bad input; the message names the file. Also if an output would replace
            an input or another output.
        OSError: naming a result that cannot be written.
    """
    refuse_clashes(
        input_files(arguments, [arguments.recording]),
        result_files(arguments, "check.html", "check.json"),
    )
    html = HtmlOutput.of_command(arguments, "check.html", "check.json")
    recording = read_recording(arguments.recording, arguments.topic)
    model, parameters = configured(
        arguments.urdf, arguments.config, dict(arguments.lock), [recording]
    )
    is_configured = arguments.config is not None or arguments.urdf.endswith(YAML)
    result = check_recording(
        recording,
        model,
        parameters if is_configured else None,
        joints=arguments.joints,
        file=str(arguments.config or arguments.urdf),
    )
    console = console_for_output()
    print_check(result, console)
    if html.is_wanted:
        analysed = analysed_now([arguments.recording], arguments.urdf, arguments.config)
        page = check_page(result.to_json(), result.evidence, analysed)
        html.write(page, console)
    if arguments.json:
        write_json(result.to_json(), arguments.json)
        console.print(f"JSON in {arguments.json}", markup=False)
    if arguments.report:
        write_json(result.to_json(), arguments.report / "check.json")
        console.print(f"report in {arguments.report}", markup=False)
    _print_next(arguments, result, is_configured and max(parameters.contact_threshold) > 0.0)
    return NO_RESULT if result.level == "bad" else 0


def _print_next(arguments: argparse.Namespace, result: CheckResult, is_calibrated: bool) -> None:
    console = console_for_output()
    same = (arguments.recording, *robot_words(arguments))
    if result.level_for_calibration == "bad":
        print_next(console, "after the lines marked WRONG are settled", "check", *same)
    elif is_calibrated and result.level != "bad":
        print_next(console, "the contacts in a recording", "replay", *same)
    else:
        print_calibration(console, arguments, [str(arguments.recording)], result.duration)
