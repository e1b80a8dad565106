"""The command ``rbd-control``: its sub-commands and their arguments.

Exit codes: 0 it ran, 2 the input was bad (one line on stderr says how), 130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rbd_control import __version__
from rbd_control.errors import RbdControlError
from rbd_control.prompt_end import PromptEnd
from rbd_control.standard_streams import ensure_standard_streams, release_standard_streams, say

BAD_INPUT = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; return its exit code.

    SIGINT and SIGTERM end the process where it is: an exception that unwinds the compiler may be
    swallowed there, or crash it. Commands that have something to put in order handle both
    themselves.
    """
    ensure_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character is no reason to fail.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    arguments = _parser().parse_args(argv)
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    with PromptEnd(INTERRUPTED):
        code = _run(arguments)
    release_standard_streams()
    return code


def _run(arguments: argparse.Namespace) -> int:
    try:
        code: int = arguments.run(arguments)
    except RbdControlError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rbd-control",
        description="Contact detection without force sensors and passive control of robot arms.",
    )
    parser.add_argument("--version", action="version", version=f"rbd-control {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_replay(commands)
    _add_calibrate(commands)
    _add_monitor(commands)
    _add_warmup(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="simulated arm, controller and detector over ROS 2",
        description="Arm, controller and detector as ROS 2 nodes: a trajectory, pushes and a "
        "collision, each contact scored against the truth.",
    )
    demo.add_argument(
        "--duration", type=_seconds, metavar="S", help="length of the motion [s] (20)"
    )
    demo.add_argument("--report", type=Path, metavar="DIR", help="folder for the picture")
    demo.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    demo.set_defaults(run=_run_demo)


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    replay = commands.add_parser(
        "replay",
        help="recordings through the contact detector",
        description="Joint states of recordings through the detector that the node runs, scored "
        "where the true contacts are known.",
    )
    replay.add_argument(
        "recordings",
        type=Path,
        nargs="+",
        metavar="RECORDING",
        help="rosbag2 folder, .db3, .mcap or .csv",
    )
    _add_robot(replay)
    replay.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help="parameter file of the node, section contact_detector",
    )
    replay.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="true contacts to score against, instead of those in the recording; columns "
        "recording, begin, end, link, force",
    )
    replay.add_argument(
        "--curve",
        action="store_true",
        help="score with higher and lower thresholds too: delay against false alarms",
    )
    replay.add_argument(
        "--report", type=Path, metavar="DIR", help="folder for report.json and the pictures"
    )
    replay.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    replay.set_defaults(run=_run_replay)


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="friction, model corrections, gains and thresholds from contact-free recordings",
        description="Friction, corrections of masses, observer gains and thresholds of the "
        "contact detector from recordings without contact, with the false-alarm rate they imply, "
        "as a parameter file of the node.",
    )
    calibrate.add_argument(
        "recordings",
        type=Path,
        nargs="+",
        metavar="RECORDING",
        help="rosbag2 folder, .db3, .mcap or .csv; 20 s in all at the least",
    )
    _add_robot(calibrate)
    calibrate.add_argument(
        "--out", type=Path, required=True, metavar="YAML", help="parameter file to write"
    )
    calibrate.add_argument(
        "--false-alarms",
        type=_positive,
        default=1.0,
        metavar="N",
        help="wanted false alarms an hour over all joints (1)",
    )
    calibrate.add_argument(
        "--effort",
        choices=("torque", "current", "torque_without_gravity"),
        default="torque",
        help="what the recorded effort is: joint torque, motor current (the gains of the drives "
        "are identified), or torque that the driver has taken gravity off (torque)",
    )
    calibrate.add_argument(
        "--effort-gain",
        type=lambda text: [_finite(part) for part in text.split(",")],
        metavar="G,...",
        help="torque per unit of effort, one number or one for each joint; signs count",
    )
    calibrate.add_argument(
        "--observer",
        choices=("momentum", "second_order"),
        default="second_order",
        help="kind of observer (second_order)",
    )
    calibrate.add_argument(
        "--gain", type=_positive, metavar="K", help="observer gain [1/s], else chosen per joint"
    )
    calibrate.add_argument("--report", type=Path, metavar="DIR", help="folder for calibration.png")
    calibrate.set_defaults(run=_run_calibrate)


def _add_monitor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    monitor = commands.add_parser(
        "monitor",
        help="live residuals and contacts of a running detector",
        description="Shows what a running contact detector says: residuals against thresholds, "
        "the verdict, link and force, events. Where the output is no terminal it prints events as "
        "they come, and one picture at the end.",
    )
    monitor.add_argument(
        "--detector",
        default="contact_detector",
        metavar="NODE",
        help="name of the detector's node, with its namespace (contact_detector)",
    )
    monitor.add_argument("--duration", type=_seconds, metavar="S", help="end after so long [s]")
    monitor.add_argument("--once", action="store_true", help="print one picture and end")
    monitor.set_defaults(run=_run_monitor)


def _add_warmup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    warmup = commands.add_parser(
        "warmup",
        help="compile ahead, so that no later start has to",
        description="Compiles, once for each installation, what the nodes, replay, calibrate and "
        "demo use, and says where it is kept.",
    )
    warmup.set_defaults(run=_run_warmup)


def _add_robot(command: argparse.ArgumentParser) -> None:
    """What tells which robot moved, and where in the recording."""
    command.add_argument(
        "--urdf", required=True, metavar="FILE", help="the robot; 'arm7' for the one shipped"
    )
    command.add_argument(
        "--topic", default="/joint_states", help="joint states in the recording (/joint_states)"
    )
    command.add_argument(
        "--lock",
        type=_position,
        action="append",
        default=[],
        metavar="JOINT=POSITION",
        help="hold a joint that the recording does not move; may be repeated",
    )
    command.add_argument(
        "--joints",
        type=lambda text: text.split(","),
        metavar="A,B,...",
        help="the recording's names of the model's joints, in the model's order",
    )


def _run_calibrate(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.calibrate import run_calibrate

    return run_calibrate(arguments)


def _run_replay(arguments: argparse.Namespace) -> int:
    # Numba and the rest take seconds to import, which --help need not wait for.
    from rbd_control.cli.replay import run_replay

    return run_replay(arguments)


def _run_warmup(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.warmup import run_warmup

    return run_warmup()


def _run_monitor(arguments: argparse.Namespace) -> int:
    with _ros_needed("the monitor"):
        from rbd_control.nodes.monitor import run_monitor
    code: int = run_monitor(arguments.detector, arguments.duration, arguments.once)
    return code


def _run_demo(arguments: argparse.Namespace) -> int:
    with _ros_needed("the demo"):
        from rbd_control.nodes.demo import run_demo
    code: int = run_demo(arguments.duration, arguments.report, arguments.json)
    return code


@contextmanager
def _ros_needed(what: str) -> Iterator[None]:
    """Says what to do when an import in it fails for want of ROS."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rbd_control":
            raise
        raise RbdControlError(
            f"{what} needs ROS 2, and {error.name} is not installed: "
            "source a ROS 2 installation, or pip install 'rbd_control[ros]'"
        ) from error


def _refuse(message: str) -> int:
    say(f"rbd-control: {' '.join(message.split())}")
    return BAD_INPUT


def _seconds(text: str) -> float:
    value = _finite(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"{text} s; give a duration above 0")
    return value


def _positive(text: str) -> float:
    value = _finite(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"{text}; give a number above 0")
    return value


def _position(text: str) -> tuple[str, float]:
    joint, equals, position = text.rpartition("=")
    if not equals or not joint:
        raise argparse.ArgumentTypeError(f"{text!r}; give JOINT=POSITION")
    return joint, _finite(position)


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number")
    return value


if __name__ == "__main__":
    sys.exit(main())
