"""``rbd-control calibrate``: what the detector needs to know, from contact-free recordings."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.cli.replay import console_for_output
from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import Calibration, Motion, calibrate
from rbd_control.estimation.calibration import START
from rbd_control.inertial_corrections import CORRECTIONS, ROTOR
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback.joint_matching import match_joints
from rbd_control.playback.picture import draw_calibration
from rbd_control.playback.recording import read_recording
from rbd_control.robot_model import urdf_source

_OF_THE_MODEL = (
    "effort_gain",
    *CORRECTIONS,
)
"""Written only where they say something."""
_FROM_DATA = (
    "observer_damping",
    "observer_gain",
    "settling_time",
    "friction_model",
    "friction_coulomb",
    "friction_viscous",
    "friction_offset",
    "friction_velocity_scale",
    "contact_threshold",
    "threshold_speed",
    "moving_ratio",
    "residual_covariance",
    "statistic_threshold",
    "statistic_speed",
    "collision_threshold",
    "onset_debounce",
)


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Read, calibrate, print and write; 0.

    Raises:
        RbdControlError: for bad input, in one sentence.
        OSError: when the outcome cannot be written.
    """
    model = Model.from_urdf(urdf_source(arguments.urdf), locked=dict(arguments.lock))
    _refuse_repetition(arguments.recordings)
    motions = [
        _motion(path, model, arguments.topic, arguments.joints) for path in arguments.recordings
    ]
    start = replace(
        START,
        observer=arguments.observer,
        effort_kind=arguments.effort,
        effort_gain=tuple(arguments.effort_gain or (1.0,)),
        observer_gain=(arguments.gain or 50.0,),
    )
    calibration = calibrate(
        motions,
        model,
        start,
        false_alarms_per_hour=arguments.false_alarms,
        keep_gain=arguments.gain is not None,
    )
    _print(calibration, console_for_output())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(_yaml(calibration, motions, model), encoding="utf-8")
    print(f"parameters in {arguments.out}")
    if arguments.report:
        arguments.report.mkdir(parents=True, exist_ok=True)
        draw_calibration(calibration, arguments.report / "calibration.png")
        print(f"picture in {arguments.report / 'calibration.png'}")
    return 0


def _refuse_repetition(paths: list[Path]) -> None:
    """Twice the same is no more motion, and its prediction from itself proves nothing."""
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise RecordingError(f"{path} is given twice")
        seen.add(path.resolve())


def _motion(path: Path, model: Model, topic: str, joints: list[str] | None) -> Motion:
    recording = read_recording(path, topic)
    names, notes = match_joints(model.joint_names, recording.joint_names, joints)
    for note in notes:
        print(f"note: {path.name}: {note}")
    blocks = [
        (block.stamp, block.q, block.v, block.tau)
        for block in recording.sample_blocks(JointStateIntake(names))
        if block.v is not None and block.tau is not None
    ]
    if sum(len(block[0]) for block in blocks) < 2:
        raise RecordingError(f"{path} has no samples with both velocity and effort")
    t, q, v, tau = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return Motion(path.name, t - t[0], q, v, tau)


def _print(calibration: Calibration, console: Console) -> None:
    parameters = calibration.parameters
    n = len(calibration.joints)
    friction = [
        parameters.for_joints(f"friction_{name}", n)
        for name in ("coulomb", "viscous", "offset", "stribeck", "velocity_scale")
    ]
    table = Table(
        title="RMS residual [N·m or N], friction, corrections of the model", title_justify="left"
    )
    for heading in (
        "joint",
        "URDF",
        "fitted",
        "elsewhere",
        "coulomb",
        "viscous",
        "offset",
        "Stribeck",
        "scale",
        "mass [kg]",
        "centre [mm]",
    ):
        table.add_column(
            heading, justify="left" if heading == "joint" else "right", no_wrap=heading == "joint"
        )
    corrections = np.column_stack([parameters.for_joints(name, n) for name in CORRECTIONS])
    for i, joint in enumerate(calibration.joints):
        mass, shift = corrections[i, 0], 1e3 * float(np.linalg.norm(corrections[i, 1:ROTOR]))
        table.add_row(
            escape(joint.joint),
            *(
                f"{number:.3f}"
                for number in (joint.rms_before, joint.rms_after, joint.prediction_error)
            ),
            *(f"{values[i]:.3f}" for values in friction),
            *((f"{mass:+.2f}", f"{shift:.0f}") if corrections[:, :ROTOR].any() else ("-", "-")),
        )
    console.print(table)
    table = Table(title="detection", title_justify="left")
    for heading in (
        "joint",
        "gain [1/s]",
        "largest residual",
        "threshold at rest",
        "and per rad/s or m/s",
        "collision",
    ):
        table.add_column(heading, justify="left" if heading == "joint" else "right")
    gain, slope, collision = (
        parameters.for_joints(name, n)
        for name in ("observer_gain", "threshold_speed", "collision_threshold")
    )
    for i, joint in enumerate(calibration.joints):
        table.add_row(
            escape(joint.joint),
            f"{gain[i]:g}",
            f"{joint.largest:.3f}",
            f"{joint.threshold:.3f}",
            f"{slope[i]:.3f}",
            f"{collision[i]:.2f}",
        )
    console.print(table)
    if parameters.effort_kind == "current":
        gains = ", ".join(f"{g:.4g}" for g in parameters.for_joints("effort_gain", n))
        console.print(f"torque per unit of effort: {gains}")
    if corrections[:, ROTOR].any():
        rotors = ", ".join(f"{J:.3g}" for J in corrections[:, ROTOR])
        console.print(f"inertia of motor and gear [kg·m² or kg]: {rotors}", markup=False)
    for note in calibration.notes:
        console.print(f"note: {note}", markup=False)
    console.print(
        "URDF: residual with the model as described, without friction; fitted: with what was "
        "identified; elsewhere: error, without noise, in parts of the motion that were not fitted; "
        "mass and centre: how far off the URDF is\n"
        f"from {calibration.duration:.0f} s of motion; thresholds for a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} an hour, in motions like these"
    )


def _yaml(calibration: Calibration, motions: list[Motion], model: Model) -> str:
    parameters = calibration.parameters
    units = {item.name: item.metadata["unit"] for item in fields(parameters)}
    lines = [
        f"# Made by rbd-control calibrate from {calibration.duration:.0f} s of motion without",
        f"# contact: {', '.join(motion.name for motion in motions)}.",
        "# The thresholds imply a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} an hour in motions like these.",
        "",
        "contact_detector:",
        "  ros__parameters:",
        f"    joints: [{', '.join(model.joint_names)}]",
        f"    effort_kind: {parameters.effort_kind}",
        f"    observer: {parameters.observer}",
    ]
    names = [
        name
        for name in _OF_THE_MODEL
        if any(value not in (0.0, 1.0) for value in getattr(parameters, name))
    ]
    if parameters.friction_model == "stribeck":
        names += ["friction_stribeck", "friction_stribeck_velocity"]
    for name in (*names, *_FROM_DATA):
        value = getattr(parameters, name)
        if isinstance(value, tuple):
            text = _list(value)
        else:
            text = value if isinstance(value, str) else _digits(value)
        lines.append(f"    {name}: {text}" + (f"  # [{units[name]}]" if units[name] else ""))
    return "\n".join(lines) + "\n"


def _list(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(map(_digits, values)) + "]"


def _digits(value: float) -> str:
    return repr(float(f"{value:.5g}"))
