"""``rbd-control calibrate``: the detector's parameters from contact-free recordings."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from rbd_control.cli.arm_file import (
    OWN_FRICTION,
    Sections,
    alarms,
    is_friction_doubtful,
    kept_in_words,
    kept_parameters,
    write_arm_file,
)
from rbd_control.cli.command_files import input_files, refuse_repetition, result_files
from rbd_control.cli.drive_gains import (
    effort_options,
    gain_evidence,
    payload_paths,
    refused_gains_shown,
)
from rbd_control.cli.exit_codes import NO_RESULT
from rbd_control.cli.next_command import print_next, robot_words
from rbd_control.errors import InputError
from rbd_control.files.input_files import about
from rbd_control.files.output_files import NamedFile, prepare_output, refuse_clashes, write_json
from rbd_control.identification import Calibration, DriveGain, RecordedMotion, calibrate
from rbd_control.playback.configuration import YAML, arm_to_calibrate, physical, starting_parameters
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.playback.recording import read_recording
from rbd_control.playback.report import draw_calibration
from rbd_control.reports.calibration_page import (
    MODEL_NOTE,
    calibration_page,
    detection_table,
    friction_table,
    gain_table,
    model_table,
)
from rbd_control.reports.console import console_for_output
from rbd_control.reports.html import HtmlOutput, analysed_now
from rbd_control.robot import Robot
from rbd_control.robot.inertial_corrections import CORRECTIONS, ROTOR
from rbd_control.wording import printable


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Calibrate the detector from contact-free recordings, and write the parameter file.

    The identified parameters are printed. JSON, HTML report and picture are written if requested.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Returns:
        The exit code: 0, or 1 if the arm is better off without the calibration.

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

    def read(path: Path) -> list[RecordedMotion]:
        return list(_motions(path, robot, arguments.topic, arguments.joints, console))

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
            alone=robot.description,
            false_alarms_per_hour=arguments.false_alarms,
            keep_gain=arguments.gain is not None,
            evidence=evidence,
        )
    if calibration.gains:
        gains = gain_table(calibration.gains, evidence.accepted_error)
        console.print(gains.on_console())
    found = calibration_values(calibration)
    _print(calibration, found, console)
    write_arm_file(arguments.out, calibration, arguments.recordings, robot, locked, kept)
    _print_warnings(calibration, kept, console)
    console.print(f"parameters in {arguments.out}", markup=False)
    if html.is_wanted:
        analysed = analysed_now(arguments.recordings, arguments.urdf)
        html.write(
            calibration_page(found, calibration, motions, analysed, _payload(arguments)), console
        )
    _write_further(calibration, found, arguments, console)
    first = arguments.recordings[0]
    if calibration.worse:
        again = ("check", first, *robot_words(arguments))
        print_next(console, "look for the reason in the recordings", *again)
        return NO_RESULT
    words = ("replay", first, *robot_words(arguments, arguments.out))
    print_next(console, "better with another recording, one with contacts", *words)
    return 0


def _print_warnings(calibration: Calibration, kept: Sections, console: Console) -> None:
    """Print notes and warnings; the most serious is the last, which is read first on a terminal."""
    notes = [OWN_FRICTION] if is_friction_doubtful(kept) else []
    notes += [kept_in_words(kept)] if kept else []
    for note in (*notes, calibration.support):
        console.print(f"[yellow]note:[/] {escape(note)}")
    change = calibration.friction_change
    for note in (*([] if change is None else [change.text]), *reversed(calibration.notes)):
        console.print(f"[bold red]warning:[/] {escape(printable(note))}")
    if calibration.worse:
        console.print(f"[bold red]do not use this calibration:[/] {escape(calibration.worse)}")


def refuse_other_suffix(out: Path) -> None:
    """Raise an error for an arm file to write that no command would recognise by its suffix.

    Raises:
        InputError: if the name has another suffix than :data:`YAML`.
    """
    if out.suffix not in YAML:
        raise InputError(f"--out is {out.name}; give a file that ends with .yaml")


def output_files(arguments: argparse.Namespace) -> list[NamedFile]:
    """Return the files that the calibration of one arm writes.

    Raises:
        InputError: from :func:`refuse_other_suffix`.
    """
    refuse_other_suffix(arguments.out)
    out = NamedFile("--out", arguments.out, is_arm_file=True)
    return [out, *result_files(arguments, "calibration.html", "calibration.png")]


def _write_further(
    calibration: Calibration,
    found: dict[str, Any],
    arguments: argparse.Namespace,
    console: Console,
) -> None:
    """Write JSON and picture of a calibration if they are requested."""
    if arguments.json:
        write_json(found, arguments.json)
        console.print(f"JSON in {arguments.json}", markup=False)
    if arguments.report:
        draw_calibration(calibration, arguments.report / "calibration.png")
        console.print(f"picture in {arguments.report / 'calibration.png'}", markup=False)


def _named(paths: list[Path]) -> str:
    """Return the first recording and the number of the others, for an error message."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _motions(
    path: Path, robot: Robot, topic: str, joints: list[str] | None, console: Console
) -> Iterator[RecordedMotion]:
    """Yield the motion in a recording, or several if its clock went back; print notes on it."""
    recording = read_recording(path, topic)
    found = read_motions(recording, robot.model, joints, robot.parameters.velocity_filter)
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
        console.print(f"[yellow]note:[/] {escape(printable(f'{path.name}: {note}'))}")
    yield from motions


def _print(calibration: Calibration, found: dict[str, Any], console: Console) -> None:
    """Print the identified parameters and the thresholds."""
    for table in (model_table(found), friction_table(found), detection_table(found)):
        console.print(table.on_console())
    joints = found["joints"].values()
    if not calibration.gains and any(one["effort_gain"] != 1.0 for one in joints):
        gains = _by_joint(found, "effort_gain", ".4g")
        console.print(f"torque per unit of effort: {gains}", markup=False)
    if any(one["rotor_inertia"] for one in joints):
        rotors = _by_joint(found, "rotor_inertia", ".3g")
        console.print(f"inertia of motor and gear [kg·m² or kg]: {rotors}", markup=False)
    if delay := found["velocity_delay"]:
        which = "velocity" if delay > 0.0 else "effort"
        console.print(f"{which} is late by {1e3 * abs(delay):.2g} ms")
    console.print(
        f"{MODEL_NOTE}\n{calibration.duration:.0f} s of motion were used. The thresholds imply "
        f"{alarms(calibration)} per hour in motions like these."
    )


def _by_joint(found: dict[str, Any], name: str, form: str) -> str:
    """Return a text with the value of a parameter for each joint, by name."""
    joints = found["joints"].items()
    return ", ".join(f"{printable(joint)} {one[name]:{form}}" for joint, one in joints)


def _payload(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the recordings with known payloads as facts of the report."""
    return [("payload recording", recording) for recording in arguments.payload_recordings]


_FRICTION = ("coulomb", "viscous", "offset", "stribeck", "velocity_scale")


def calibration_values(calibration: Calibration) -> dict[str, Any]:
    """Return the result of a calibration as plain values that ``json`` can write.

    Keys: ``duration`` of the motion that was used [s], ``false_alarms_per_hour`` over all joints,
    ``effort_kind``, ``velocity_delay`` [s]; ``joints`` by name with ``unit`` of its torques,
    ``rms_before``, ``rms_after``, ``prediction_error``, ``largest``, ``threshold``,
    ``collision_threshold`` [N·m or N], ``threshold_speed`` [N·m·s/rad or N·s/m],
    ``observer_gain`` [1/s], ``effort_gain`` (N·m or N per unit of effort), ``friction`` (by the
    names of its parameters), ``mass_correction`` [kg], ``centre_correction`` (distance, [m]) and
    ``rotor_inertia`` [kg·m² or kg]; ``drive_gains`` by name with ``gain``, ``standard_error`` (N·m
    or N per unit of effort; None if infinite) and ``given``, empty if no gain was identified;
    ``worse``, why the arm is better off without the calibration, or empty; ``friction_change``
    during the motion with ``joint``, ``share`` and ``error`` (its standard error), or None; and
    ``warnings``.
    """
    parameters, n = calibration.parameters, len(calibration.joints)
    change = calibration.friction_change
    gain, observer, slope, collision = (
        parameters.for_joints(name, n)
        for name in ("effort_gain", "observer_gain", "threshold_speed", "collision_threshold")
    )
    friction = {name: parameters.for_joints(f"friction_{name}", n) for name in _FRICTION}
    corrections = np.column_stack([parameters.for_joints(name, n) for name in CORRECTIONS])
    return {
        "duration": calibration.duration,
        "false_alarms_per_hour": calibration.false_alarms_per_hour,
        "effort_kind": parameters.effort_kind,
        "velocity_delay": parameters.velocity_delay,
        "joints": {
            joint.joint: {
                "unit": joint.unit,
                "rms_before": joint.rms_before,
                "rms_after": joint.rms_after,
                "prediction_error": joint.prediction_error,
                "largest": joint.largest,
                "threshold": joint.threshold,
                "threshold_speed": float(slope[i]),
                "collision_threshold": float(collision[i]),
                "observer_gain": float(observer[i]),
                "effort_gain": float(gain[i]),
                "friction": {name: float(values[i]) for name, values in friction.items()},
                "mass_correction": float(corrections[i, 0]),
                "centre_correction": float(np.linalg.norm(corrections[i, 1:ROTOR])),
                "rotor_inertia": float(corrections[i, ROTOR]),
            }
            for i, joint in enumerate(calibration.joints)
        },
        "drive_gains": {one.joint: _drive_gain(one) for one in calibration.gains},
        "worse": calibration.worse,
        "friction_change": None if change is None else asdict(change),
        "warnings": list(calibration.notes),
    }


def _drive_gain(one: DriveGain) -> dict[str, Any]:
    """Return one gain; an infinite standard error is null."""
    error = one.standard_error if math.isfinite(one.standard_error) else None
    return {"gain": one.gain, "standard_error": error, "given": one.is_given}
