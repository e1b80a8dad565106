"""``rbd-control calibrate``: friction and thresholds from contact-free recordings."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.cli.replay import console_for_output
from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import Calibration, DetectorParameters, Motion, calibrate
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback.joint_matching import match_joints
from rbd_control.playback.picture import draw_calibration
from rbd_control.playback.recording import read_recording
from rbd_control.robot_model import urdf_source

_FROM_DATA = (
    ("friction_coulomb", "N·m or N"),
    ("friction_viscous", "N·m·s/rad or N·s/m"),
    ("friction_offset", "N·m or N"),
    ("friction_velocity_scale", "rad/s or m/s"),
    ("contact_threshold", "N·m or N"),
    ("collision_threshold", "N·m or N"),
)


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Read, calibrate, print and write; 0.

    Raises:
        RbdControlError: for bad input, in one sentence.
        OSError: when the outcome cannot be written.
    """
    model = Model.from_urdf(urdf_source(arguments.urdf), locked=dict(arguments.lock))
    motions = [
        _motion(path, model, arguments.topic, arguments.joints) for path in arguments.recordings
    ]
    start = DetectorParameters()
    if arguments.gain is not None:
        # Four time constants, after which a filter's memory of its start is under 2 %.
        settling = max(start.settling_time, 4.0 / arguments.gain)
        start = DetectorParameters(observer_gain=(arguments.gain,), settling_time=settling)
    calibration = calibrate(motions, model, start, false_alarms_per_hour=arguments.false_alarms)
    _print(calibration, console_for_output())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(_yaml(calibration, motions, model), encoding="utf-8")
    print(f"parameters in {arguments.out}")
    if arguments.report:
        arguments.report.mkdir(parents=True, exist_ok=True)
        draw_calibration(calibration, arguments.report / "calibration.png")
        print(f"picture in {arguments.report / 'calibration.png'}")
    return 0


def _motion(path: Path, model: Model, topic: str, joints: list[str] | None) -> Motion:
    recording = read_recording(path, topic)
    names, notes = match_joints(model.joint_names, recording.joint_names, joints)
    for note in notes:
        print(f"note: {path.name}: {note}")
    rows = [
        (sample.stamp, sample.q, sample.v, sample.tau)
        for sample in recording.samples(JointStateIntake(names))
        if sample.v is not None and sample.tau is not None
    ]
    if len(rows) < 2:
        raise RecordingError(f"{path} has no samples with both velocity and effort")
    t, q, v, tau = (np.array(column) for column in zip(*rows, strict=True))
    return Motion(path.name, t - t[0], q, v, tau)


def _print(calibration: Calibration, console: Console) -> None:
    table = Table(title="residual without contact [N·m or N]", title_justify="left")
    table.add_column("joint")
    for heading in ("RMS without friction", "RMS with", "largest", "threshold"):
        table.add_column(heading, justify="right")
    for joint in calibration.joints:
        numbers = (joint.rms_before, joint.rms_after, joint.largest, joint.threshold)
        table.add_row(escape(joint.joint), *(f"{number:.3f}" for number in numbers))
    console.print(table)
    console.print(
        f"from {calibration.duration:.0f} s of motion; thresholds for a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} an hour, in motions like these"
    )


def _yaml(calibration: Calibration, motions: list[Motion], model: Model) -> str:
    parameters = calibration.parameters
    lines = [
        f"# Made by rbd-control calibrate from {calibration.duration:.0f} s of motion without",
        f"# contact: {', '.join(motion.name for motion in motions)}.",
        "# The thresholds imply a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} an hour in motions like these.",
        "",
        "contact_detector:",
        "  ros__parameters:",
        f"    joints: [{', '.join(model.joint_names)}]",
        f"    observer_gain: {_list(parameters.observer_gain)}  # [1/s]",
        f"    settling_time: {parameters.settling_time!r}  # [s]",
        f"    friction_model: {parameters.friction_model}",
    ]
    lines += [
        f"    {name}: {_list(getattr(parameters, name))}  # [{unit}]" for name, unit in _FROM_DATA
    ]
    return "\n".join(lines) + "\n"


def _list(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(repr(round(float(value), 4)) for value in values) + "]"
