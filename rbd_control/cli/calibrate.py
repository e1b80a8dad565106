"""``rbd-control calibrate``: the detector's parameters from contact-free recordings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.cli.arm_file import (
    OWN_FRICTION,
    alarms,
    is_friction_doubtful,
    write_arm_file,
)
from rbd_control.cli.calibration_json import calibration_json, calibration_values
from rbd_control.cli.command_files import input_files, refuse_repetition, result_files
from rbd_control.cli.drive_gains import (
    effort_options,
    gain_evidence,
    gain_table,
    payload_paths,
    refused_gains_shown,
)
from rbd_control.cli.kept_parameters import kept_in_words, kept_parameters
from rbd_control.cli.replay import console_for_output
from rbd_control.dynamics import Model
from rbd_control.estimation import Calibration, Motion, calibrate
from rbd_control.files.file_clashes import NamedFile, refuse_clashes
from rbd_control.files.input_files import about
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.playback.arm_calibration import arm_to_calibrate, physical, starting_parameters
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.playback.picture import draw_calibration
from rbd_control.playback.recording import read_recording
from rbd_control.reports.calibration_page import calibration_page
from rbd_control.reports.output import HtmlOutput, analysed_now
from rbd_control.robot.inertial_corrections import CORRECTIONS, ROTOR
from rbd_control.wording import printable


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Calibrate the detector from contact-free recordings, and write the parameter file; return 0.

    The identified parameters are printed. JSON, HTML report and picture are written if requested.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.arguments.calibrate` defines.

    Raises:
        RbdControlError: for bad input, for recordings that do not suffice for a calibration, and
            if an output would replace an input or another output; the message names the file.
        OSError: naming a result that cannot be written.
    """
    refuse_clashes(input_files(arguments, arguments.recordings), output_files(arguments))
    prepare_output(arguments.out)
    html = HtmlOutput.of_command(arguments, "calibration.html", "calibration.png")
    console = console_for_output()
    refuse_repetition([*arguments.recordings, *payload_paths(arguments)])
    recordings = [read_recording(path, arguments.topic) for path in arguments.recordings]
    locked = dict(arguments.lock)
    robot = arm_to_calibrate(arguments.urdf, locked, recordings, effort_options(arguments))
    model = robot.model

    def read(path: Path) -> list[Motion]:
        return list(_motions(path, model, arguments.topic, arguments.joints, console))

    motions = [motion for path in arguments.recordings for motion in read(path)]
    kept = kept_parameters(arguments.out, arguments.urdf, robot, locked)
    evidence = gain_evidence(arguments, read)
    start = starting_parameters(
        robot,
        observer=arguments.observer,
        gain=arguments.gain,
        trusted=arguments.trust_effort_kind,
    )
    with about(_named(arguments.recordings)), physical(model), refused_gains_shown(console):
        calibration = calibrate(
            motions,
            model,
            start,
            false_alarms_per_hour=arguments.false_alarms,
            keep_gain=arguments.gain is not None,
            evidence=evidence,
        )
    if calibration.gains:
        console.print(gain_table(calibration.gains, evidence.accepted_error))
    _print(calibration, console)
    write_arm_file(arguments.out, calibration, arguments.recordings, robot, locked, kept)
    if kept:
        console.print(kept_in_words(kept), markup=False)
    console.print(f"parameters in {arguments.out}", markup=False)
    if html.is_wanted:
        analysed = analysed_now(arguments.recordings, arguments.urdf)
        found = calibration_values(calibration)
        html.write(
            calibration_page(found, calibration, motions, analysed, _payload(arguments)), console
        )
    _write_further(calibration, arguments, console)
    if is_friction_doubtful(kept):
        console.print(f"note: {OWN_FRICTION}", markup=False)
    return 0


def output_files(arguments: argparse.Namespace) -> list[NamedFile]:
    """Return the files that the calibration of one arm writes."""
    out = NamedFile("--out", arguments.out, is_arm_file=True)
    return [out, *result_files(arguments, "calibration.html", "calibration.png")]


def _write_further(
    calibration: Calibration, arguments: argparse.Namespace, console: Console
) -> None:
    """Write JSON and picture of a calibration if they are requested."""
    if arguments.json:
        write_whole(arguments.json, calibration_json(calibration).encode())
        console.print(f"JSON in {arguments.json}", markup=False)
    if arguments.report:
        draw_calibration(calibration, arguments.report / "calibration.png")
        console.print(f"picture in {arguments.report / 'calibration.png'}", markup=False)


def _named(paths: list[Path]) -> str:
    """Return the first recording and the number of the others, for an error message."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _motions(
    path: Path, model: Model, topic: str, joints: list[str] | None, console: Console
) -> Iterator[Motion]:
    """Yield the motion in a recording, or several if its clock went back; print notes on it."""
    recording = read_recording(path, topic)
    found = read_motions(recording, model, joints)
    motions, said = free_motions(recording, found)
    notes = [*found.notes, *said]
    if found.unused:
        notes.append(f"of {found.messages} messages {found.unused}")
    if found.jumps:
        first, times = found.jumps[0], len(found.jumps)
        often = f"{times} times, first" if times > 1 else "once,"
        notes.append(
            f"the clock went back {often} by {first.back:.3g} s at {first.time:.3f} s; the motion "
            "is cut there"
        )
    for note in notes:
        console.print(f"note: {path.name}: {note}", markup=False)
    yield from motions


def _print(calibration: Calibration, console: Console) -> None:
    """Print the identified parameters, the thresholds, and the warnings."""
    parameters = calibration.parameters
    console.print(_model_table(calibration))
    console.print(_friction_table(calibration))
    console.print(_detection_table(calibration))
    if not calibration.gains and any(gain != 1.0 for gain in parameters.effort_gain):
        gains = _by_joint(calibration, "effort_gain", ".4g")
        console.print(f"torque per unit of effort: {gains}", markup=False)
    if any(parameters.rotor_inertia):
        rotors = _by_joint(calibration, CORRECTIONS[ROTOR], ".3g")
        console.print(f"inertia of motor and gear [kg·m² or kg]: {rotors}", markup=False)
    if parameters.velocity_delay:
        console.print(f"velocity is late by {1e3 * parameters.velocity_delay:.2g} ms")
    for note in calibration.notes:
        console.print(f"warning: {note}", markup=False)
    console.print(
        "URDF: RMS residual of the model as described, without friction; fitted: with the "
        "identified model; prediction: RMS error, low-pass filtered, in parts of the motion that "
        "were left out of the fit; mass and centre: corrections of the URDF\n"
        f"{calibration.duration:.0f} s of motion were used. The thresholds imply "
        f"{alarms(calibration)} per hour in motions like these."
    )


def _model_table(calibration: Calibration) -> Table:
    """Return residuals and corrections of the model, one row per joint."""
    joints, parameters = calibration.joints, calibration.parameters
    columns = [parameters.for_joints(name, len(joints)) for name in CORRECTIONS]
    corrections = np.column_stack(columns)
    masses, shifts = corrections[:, 0], 1e3 * np.linalg.norm(corrections[:, 1:ROTOR], axis=1)
    corrected = corrections[:, :ROTOR].any()
    return _table(
        calibration,
        "RMS residual and corrections of the model (prismatic joints: N)",
        {
            "URDF [N·m]": [f"{joint.rms_before:.3f}" for joint in joints],
            "fitted [N·m]": [f"{joint.rms_after:.3f}" for joint in joints],
            "prediction [N·m]": [f"{joint.prediction_error:.3f}" for joint in joints],
            "mass [kg]": [f"{mass:+.2f}" if corrected else "-" for mass in masses],
            "centre of mass [mm]": [f"{shift:.0f}" if corrected else "-" for shift in shifts],
        },
    )


def _friction_table(calibration: Calibration) -> Table:
    """Return the friction, one row per joint."""
    return _table(
        calibration,
        "friction (prismatic joints: N and m)",
        {
            heading: _formatted(calibration, f"friction_{name}", ".3f")
            for heading, name in (
                ("Coulomb [N·m]", "coulomb"),
                ("viscous [N·m·s/rad]", "viscous"),
                ("offset [N·m]", "offset"),
                ("Stribeck [N·m]", "stribeck"),
                ("velocity scale [rad/s]", "velocity_scale"),
            )
        },
    )


def _detection_table(calibration: Calibration) -> Table:
    """Return observer gains and thresholds, one row per joint."""
    joints = calibration.joints
    return _table(
        calibration,
        "observer and thresholds (prismatic joints: N and m)",
        {
            "gain [1/s]": _formatted(calibration, "observer_gain", ".4g"),
            "largest residual [N·m]": [f"{joint.largest:.3f}" for joint in joints],
            "contact at rest [N·m]": [f"{joint.threshold:.3f}" for joint in joints],
            "and per speed [N·m·s/rad]": _formatted(calibration, "threshold_speed", ".3f"),
            "collision [N·m]": _formatted(calibration, "collision_threshold", ".2f"),
        },
    )


def _formatted(calibration: Calibration, name: str, form: str) -> list[str]:
    """Return the value of the parameter ``name`` for each joint, in the format ``form``."""
    values = calibration.parameters.for_joints(name, len(calibration.joints))
    return [format(float(value), form) for value in values]


def _by_joint(calibration: Calibration, name: str, form: str) -> str:
    """Return a text with the value of a parameter for each joint, by name."""
    values = _formatted(calibration, name, form)
    joints = (printable(joint.joint) for joint in calibration.joints)
    return ", ".join(f"{joint} {value}" for joint, value in zip(joints, values, strict=True))


def _table(calibration: Calibration, title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    """Return a table with one row per joint; ``columns`` holds the cells below each heading."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("joint", no_wrap=True)
    for heading in columns:
        table.add_column(escape(heading), justify="right")
    names = [escape(joint.joint) for joint in calibration.joints]
    for row in zip(names, *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _payload(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the recordings with known payloads as facts of the report."""
    return [("payload recording", recording) for recording in arguments.payload_recordings]
