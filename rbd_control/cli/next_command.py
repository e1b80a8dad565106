"""The command that follows a command, ready to be copied, with the file names of this one."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rbd_control.identification.calibration import LEAST_TIME
from rbd_control.playback.configuration import YAML
from rbd_control.reports.console import program

RECORD = ("ros2", "bag", "record", "/joint_states", "-o", "free")
"""Records the joint states of a robot into the folder ``free``."""


WITHIN = "RBD_CONTROL_WITHIN_COMMISSION"
"""Variable of the environment that is set while ``commission`` runs a command."""


def print_next(console: Console, why: str, *words: str | Path) -> None:
    """Print the next command on one line, however long it is; nothing within ``commission``.

    Args:
        console: receives the line.
        why: what the command is for, or what to do before.
        words: its words; ``rbd-control`` is put before the name of a sub-command.
    """
    if WITHIN in os.environ:
        return
    line = [str(word) for word in words]
    if line[0] not in ("ros2", "cc"):
        line[:0] = program()
    console.print(f"next, {why}:", markup=False)
    console.print(f"  {shlex.join(line)}", markup=False, soft_wrap=True)


def robot_words(arguments: argparse.Namespace, urdf: str | Path = "") -> list[str]:
    """Return the options for the robot and its joints, as given or with another description.

    Args:
        arguments: arguments of a command that reads recordings.
        urdf: description or arm file for ``--urdf``; by default the given one, with ``--config``.
    """
    words = ["--urdf", str(urdf or arguments.urdf)] if urdf or arguments.urdf else []
    if not urdf and getattr(arguments, "config", None):
        words += ["--config", str(arguments.config)]
    if arguments.topic != "/joint_states":
        words += ["--topic", arguments.topic]
    for joint, position in arguments.lock:
        words += ["--lock", f"{joint}={position:g}"]
    if arguments.joints:
        words += ["--recorded-joints", ",".join(arguments.joints)]
    return words


def print_calibration(
    console: Console, arguments: argparse.Namespace, recordings: Sequence[str], duration: float
) -> None:
    """Print a calibration from recordings, or how to record them if these are too short.

    The calibration writes the given arm file, else a new one.

    Args:
        console: receives the line.
        arguments: arguments of the command that has read the recordings.
        recordings: those without known contact.
        duration: their total length [s].
    """
    if duration < LEAST_TIME:
        text = f"record free motion of {LEAST_TIME:.0f} s or more for the calibration"
        print_next(console, text, *RECORD)
        return
    given = arguments.urdf or str(arguments.config or "")
    out = given if given.endswith(YAML) else _unused("arm.yaml")
    words = ("calibrate", *recordings, *robot_words(arguments, given), "--out", out)
    print_next(console, "identify friction and thresholds, if nothing touched the arm", *words)


def detector_words(arguments: argparse.Namespace) -> list[str]:
    """Return the launch of the detector with the parameter file of a command."""
    words = ["ros2", "launch", "rbd_control", "contact_detector.launch.py"]
    words.append(f"params_file:={arguments.config or arguments.urdf}")
    if arguments.config and arguments.urdf:
        words.append(f"urdf:={arguments.urdf}")
    return words


def _unused(name: str) -> str:
    """Return a file name that does not exist yet: ``arm.yaml``, else ``arm_2.yaml`` and so on."""
    path, number = Path(name), 1
    while path.exists():
        number += 1
        path = path.with_name(f"{Path(name).stem}_{number}{path.suffix}")
    return str(path)
