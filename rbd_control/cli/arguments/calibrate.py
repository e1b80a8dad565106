"""Arguments of ``rbd-control calibrate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.fleet import add_fleet, refuse_fleet_options
from rbd_control.cli.arguments.kinds import numbers, positive
from rbd_control.cli.arguments.shared import (
    RECORDING,
    Commands,
    add_outputs,
    add_recording,
    add_robot,
    add_trust,
)
from rbd_control.errors import InputError


def add_command(commands: Commands) -> None:
    """Add the sub-command ``calibrate`` with its arguments to the parser of ``rbd-control``."""
    calibrate = commands.add_parser(
        "calibrate",
        help="identify friction, model corrections, gains and thresholds from contact-free motion",
        description="Identify joint friction and corrections of the masses, and choose observer "
        "gains and thresholds of the contact detector, from recordings without contact. The "
        "result is a parameter file of the node, with the false-alarm rate it implies.",
    )
    add_recording(calibrate, "recordings", nargs="+", help=f"{RECORDING}; at least 20 s in total")
    add_robot(calibrate)
    calibrate.add_argument(
        "--out",
        type=Path,
        metavar="YAML",
        help="parameter file to write; needed unless --fleet is given; an existing file keeps the "
        "parameters that calibrate does not identify, but not its comments",
    )
    _add_model(calibrate)
    _add_drive_gains(calibrate)
    calibrate.add_argument(
        "--observer",
        choices=("momentum", "second_order"),
        default="second_order",
        help="kind of observer (default: second_order)",
    )
    calibrate.add_argument(
        "--gain",
        type=positive,
        metavar="K",
        help="observer gain [1/s] (default: chosen for each joint)",
    )
    add_outputs(calibrate, "calibration.html and calibration.png")
    add_trust(calibrate)
    add_fleet(calibrate)
    calibrate.set_defaults(run=_run)


def _add_model(calibrate: argparse.ArgumentParser) -> None:
    """Add the arguments for the rate of false alarms, and for kind and gain of the effort."""
    calibrate.add_argument(
        "--false-alarms",
        type=positive,
        default=1.0,
        metavar="N",
        help="acceptable false alarms per hour, over all joints (default: 1)",
    )
    calibrate.add_argument(
        "--effort",
        choices=("torque", "current", "torque_without_gravity"),
        help="kind of the recorded effort: joint torque, motor current (the torque per unit of "
        "each drive is identified), or torque from which the driver has subtracted gravity "
        "(default: effort_kind of the parameter file, else torque)",
    )
    calibrate.add_argument(
        "--effort-gain",
        type=numbers,
        metavar="G,...",
        help="torque per unit of effort, one number for all joints or one per joint in the order "
        "of the parameter joints (without it, of the URDF); the sign counts; 1 with currents: to "
        "be identified (default: effort_gain of the parameter file, else 1)",
    )


def _add_drive_gains(calibrate: argparse.ArgumentParser) -> None:
    """Add the arguments for prior knowledge of the drives."""
    group = calibrate.add_argument_group(
        "gains of the drives",
        "With --effort current, the torque per unit of effort of each drive is identified. A joint "
        "that gravity and inertia hardly load needs more than free motion.",
    )
    group.add_argument(
        "--payload-recording",
        dest="payload_recordings",
        action="append",
        default=[],
        metavar="RECORDING=MASS[±ERROR][@X,Y,Z]",
        help="recording without contact, in which the last link carries a known payload: mass "
        "[kg], its standard error, and its centre of mass in the frame of that link [m] (default: "
        "not known); +- stands for ±; may be repeated",
    )
    group.add_argument(
        "--drive-gain",
        dest="known_gains",
        action="append",
        default=[],
        metavar="JOINT=GAIN[±ERROR]",
        help="known torque per unit of effort of one joint, from its datasheet (torque constant "
        "times gear ratio) or its vendor, and its standard error; may be repeated",
    )
    group.add_argument(
        "--drive-gain-error",
        type=positive,
        default=4.0,
        metavar="PERCENT",
        help="refuse gains whose relative standard error exceeds this (default: 4)",
    )
    group.add_argument(
        "--mass-error",
        type=positive,
        default=5.0,
        metavar="PERCENT",
        help="standard deviation of the masses of the URDF, which limits the accuracy of gains "
        "from free motion; 2 mm of the centres of mass for each percent (default: 5)",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.fleet:
        from rbd_control.cli.fleet import run_calibrate_fleet

        return run_calibrate_fleet(arguments)
    refuse_fleet_options(arguments)
    if not arguments.out:
        raise InputError("no output: give --out YAML, or --fleet DIR for a table of many arms")
    from rbd_control.cli.calibrate import run_calibrate

    return run_calibrate(arguments)
