"""``rbd-control commission``: the first hour with an arm, step by step.

Each step records the arm, judges the recording by a command that can be repeated alone, and goes on
only if nothing is wrong. The arm is moved slowly before it is moved fast, and never without a
confirmation.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from rbd_control.cli.calibrate import refuse_other_suffix
from rbd_control.cli.exit_codes import NO_RESULT
from rbd_control.cli.next_command import WITHIN, detector_words, print_next
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation.thresholds import default_contact_thresholds
from rbd_control.excitation import at_speed, read_trajectory_file
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.reports.console import console_for_output, program
from rbd_control.reports.page import count
from rbd_control.robot import Robot

if TYPE_CHECKING:
    from rbd_control.live.commission import LiveArm

AT_START = 0.2
"""Time that a controller has for the first point of a motion, at which the arm stands [s]."""
AT_REST = 5.0
"""Length of the recording at rest [s]."""


@dataclass(frozen=True)
class Step:
    """One step of the first hour."""

    name: str
    does: str
    """What it does, for the user."""
    run: Callable[[Commission], str]
    """Runs it; the result says why to go no further, and is empty if all is well."""
    moves: bool = False
    """Whether the arm moves, which needs a confirmation."""


class Commission:
    """The arm, the folder of its recordings and reports, and the steps on them.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.
        arm: the arm over ROS 2.
        console: receives the texts.
    """

    def __init__(self, arguments: argparse.Namespace, arm: LiveArm, console: Console) -> None:
        self._given, self._arm, self._console = arguments, arm, console
        self._folder: Path = arguments.folder
        self._urdf = arguments.urdf or self._received_description()
        self._is_watched = False

    def rest(self) -> str:
        """Record the arm at rest, and check it."""
        self._arm.record(self._new("rest"), AT_REST)
        return self._check("rest")

    def design(self) -> str:
        """Design the motion from where the arm stands."""
        motion = self._folder / "motion.yaml"
        words = ["excite", "--urdf", self._urdf, "--out", motion, "--report", self._folder]
        words += ["--full" if self._given.full else "--quick"]
        self._watch()
        for joint, value in self._arm.standing().items():
            words += ["--start", f"{joint}={value:.5f}"]
        if self._given.box is not None:
            words += ["--box", *map(str, self._given.box)]
        if self._given.floor is not None:
            words += ["--floor", str(self._given.floor)]
        return "" if self._rbd_control(*words) == 0 else "no motion was designed"

    def slow(self) -> str:
        """Move the arm slowly, and check it."""
        return self._play("slow") or self._check("slow")

    def fast(self) -> str:
        """Move the arm as designed, and check it."""
        return self._play("fast") or self._check("fast")

    def calibrate(self) -> str:
        """Calibrate from the fast motion."""
        words = ["calibrate", self._path("fast"), "--urdf", self._urdf, "--out", self._given.out]
        if self._given.effort:
            words += ["--effort", self._given.effort]
        code = self._rbd_control(*words, "--report", self._folder / "calibration")
        return "" if code == 0 else "the calibration must not be used; its reason stands above"

    def validate(self) -> str:
        """Move the arm once more, and count false contacts of the calibrated detector."""
        stopped = self._play("validate")
        if stopped:
            return stopped
        report = self._folder / "validate.json"
        words = ["replay", self._path("validate"), "--urdf", self._given.out, "--json", report]
        if self._rbd_control(*words):
            return "the calibrated detector has no verdict"
        found = json.loads(report.read_text(encoding="utf-8"))
        contacts = [event for event in found["events"] if event]
        if contacts:
            return (
                f"{count(len(contacts), 'false contact')} in a motion that the calibration has not "
                f"seen: calibrate from a longer one, --full --step design fast calibrate validate"
            )
        return ""

    def _watch(self) -> None:
        """Let a detector watch the arm, with the joints of the recording at rest."""
        if self._is_watched:
            return
        recordings = [read_recording(self._path("rest"))]
        robot, parameters = configured_robot(self._urdf, None, {}, recordings)
        if self._given.effort:
            parameters = replace(parameters, effort_kind=self._given.effort)
        # Without friction and with masses as described, only the defaults are known.
        threshold = self._given.watch * default_contact_thresholds(robot.model)
        parameters = replace(parameters, contact_threshold=tuple(threshold))
        self._arm.use(robot.model, parameters)
        self._is_watched = True

    def points(self, name: str) -> TrajectoryArrays:
        """Return the motion of a step: the designed one, slower in the step ``slow``."""
        _, points = read_trajectory_file(self._folder / "motion.yaml")
        points = replace(points, times=points.times - points.times[0] + AT_START)
        return at_speed(points, self._given.speed if name == "slow" else 1.0)

    def _play(self, name: str) -> str:
        """Play the motion of a step; return why it was stopped."""
        self._watch()
        stopped = self._arm.play(self._new(name), self.points(name))
        if stopped.startswith("contact"):
            stopped += (
                f". If nothing has touched the arm, its friction is higher than the watch allows: "
                f"repeat with --watch {2.0 * self._given.watch:g}"
            )
        return stopped

    def _check(self, name: str) -> str:
        words = ["check", self._path(name), "--urdf", self._urdf]
        if self._rbd_control(*words, "--report", self._folder / f"{name}_check"):
            return "a line is WRONG: settle it, then repeat this step"
        return ""

    def _path(self, name: str) -> Path:
        path = self._folder / name
        if not path.exists():
            raise InputError(f"{path} does not exist: run the step {name} first")
        return path

    def _new(self, name: str) -> Path:
        """Return the folder of a new recording; an older one gets a number."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path, number = self._folder / name, 1
        if path.exists():
            while (older := path.with_name(f"{name}_{number}")).exists():
                number += 1
            path.rename(older)
        return path

    def _received_description(self) -> str:
        path, text = self._folder / "robot.urdf", self._arm.wait_for_description()
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
        return str(path)

    def _rbd_control(self, *words: str | Path) -> int:
        """Run a command of this program, which is printed first; return its exit code."""
        line = [*program(), *map(str, words)]
        self._console.print(f"$ {shlex.join(line)}", markup=False, soft_wrap=True)
        command = [sys.executable, "-m", "rbd_control.cli.main", *map(str, words)]
        return subprocess.run(command, check=False, env={**os.environ, WITHIN: "1"}).returncode


STEPS = (
    Step("rest", "record the arm at rest for 5 s and check it", Commission.rest),
    Step("design", "design the motion; nothing moves", Commission.design),
    Step(
        "slow",
        "move the arm at the share --speed of its full speed and check it",
        Commission.slow,
        True,
    ),
    Step("fast", "move the arm at full speed and check it", Commission.fast, True),
    Step("calibrate", "calibrate from the fast motion", Commission.calibrate),
    Step("validate", "move once more, and count false contacts", Commission.validate, True),
)
"""The steps in their order."""


def run_commission(arguments: argparse.Namespace) -> int:
    """Run the steps, or those that are given, and print a recommendation.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Returns:
        The exit code: 0 if all steps ended well, 1 if one did not or was not confirmed.

    Raises:
        RbdControlError: for bad input, and if nothing is received from the arm.
    """
    from rbd_control.live.commission import LiveArm
    from rbd_control.ros.transports import running_ros

    refuse_other_suffix(arguments.out)
    prepare_output(arguments.out)
    if arguments.urdf:
        Robot.load(arguments.urdf)  # an error comes before the wait for the robot
    console = console_for_output()
    chosen = [step for step in STEPS if not arguments.step or step.name in arguments.step]
    with running_ros(lambda: LiveArm(arguments.topic, arguments.trajectories)) as arm:
        commission = Commission(arguments, arm, console)
        for step in chosen:
            console.print(f"[bold]{step.name}[/]: {step.does}")
            if step.moves and not _is_confirmed(console, commission.points(step.name)):
                console.print(
                    f"not confirmed: the arm has not moved; go on with --step {step.name}"
                )
                return NO_RESULT
            try:
                why = step.run(commission)
            except RecordingError as error:
                why = error.message
            if why:
                console.print(f"[bold red]stopped at {step.name}:[/] {escape(why)}")
                return NO_RESULT
    if chosen[-1] is STEPS[-1]:
        console.print(f"[bold green]use:[/] all steps ended well; {arguments.out} is the arm file")
        launch = argparse.Namespace(config=None, urdf=str(arguments.out))
        print_next(console, "the detector beside the robot", *detector_words(launch))
    return 0


def _is_confirmed(console: Console, points: TrajectoryArrays) -> bool:
    """Return whether the user lets the arm move; the end of the input is a no."""
    console.print(
        f"the arm moves now, for {points.times[-1]:.0f} s. Is its space free, and your hand on the "
        "stop? Type yes: ",
        end="",
    )
    try:
        return input().strip().lower() == "yes"
    except EOFError:
        console.print()
        return False
