"""The command ``rbd-control``: its sub-commands and their arguments.

Exit codes are those of :mod:`rbd_control.cli.guard`.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from rbd_control import __version__
from rbd_control.cli.guard import INTERRUPTED, guarded
from rbd_control.files.output_files import remove_unfinished
from rbd_control.startup.prompt_end import PromptEnd, end_now
from rbd_control.startup.ros_needed import ros_needed
from rbd_control.startup.standard_streams import ensure_standard_streams, release_standard_streams

_EXIT_CODES = (
    "exit codes: 0 done, 1 done but without a result to rely on, 2 an input is wrong or an output "
    "cannot be written, 3 a fault of the program, 130 interrupted"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code.

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
    with PromptEnd(INTERRUPTED, _end):
        code = guarded(lambda: int(arguments.run(arguments)), debug=arguments.debug)
    release_standard_streams()
    return code


def _end(_number: int, _frame: object) -> NoReturn:
    """End the process on a signal; what is half written or temporary is removed."""
    remove_unfinished()
    end_now(INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rbd-control",
        description="Contact detection without force sensors and passive control of robot arms.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"rbd-control {__version__}")
    _add_debug(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_payload(commands)
    _add_check(commands)
    _add_replay(commands)
    _add_calibrate(commands)
    _add_monitor(commands)
    _add_view(commands)
    _add_export(commands)
    _add_warmup(commands)
    for command in commands.choices.values():
        _add_debug(command, default=argparse.SUPPRESS)
    return parser


def _add_debug(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="print the traceback of an error as well",
    )


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="run a simulated arm, its controller and the detector over ROS 2",
        description="Run a simulated arm, its controller and the contact detector as ROS 2 nodes: "
        "a trajectory, pushes and a collision. Each contact is scored against the truth.",
    )
    demo.add_argument(
        "--duration", type=_seconds, metavar="S", help="length of the motion [s] (default: 20)"
    )
    demo.add_argument("--report", type=Path, metavar="DIR", help="folder for the picture")
    demo.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    demo.add_argument(
        "--view", action="store_true", help="show it in the browser (see rbd-control view)"
    )
    demo.set_defaults(run=_run_demo)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "check",
        help="check the quality of a recording and the weakest detectable push",
        description="Print one page about a recording: whether joints, rate and stamps are right, "
        "what the effort of each joint is, whether payload, mounting and order of the joints are "
        "as described, and the weakest push that would be found on each link. Record a free "
        "motion in which every joint moves to and fro.",
        epilog="exit code 1 if a line is red (WRONG), 0 if all are green (GOOD) or yellow (LOOK)",
    )
    check.add_argument(
        "recording",
        type=Path,
        metavar="RECORDING",
        help="rosbag2 folder, or file .db3, .mcap or .csv",
    )
    _add_robot(check)
    check.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help="parameter file of the detector node: the kind of effort that is declared, and its "
        "thresholds; without it, efforts are taken for torques and thresholds are estimated from "
        "the recording",
    )
    check.add_argument(
        "--report", type=Path, metavar="DIR", help="folder for check.json and check.html"
    )
    check.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    check.set_defaults(run=_run_check)


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    replay = commands.add_parser(
        "replay",
        help="run recordings through the contact detector",
        description="Run the joint states of recordings through the detector that the node runs, "
        "and print the contacts it finds. Where the true contacts are known, the detector is "
        "scored against them.",
        epilog="exit code 1 if the detector has no verdict at any time in one of the recordings",
    )
    replay.add_argument(
        "recordings",
        type=Path,
        nargs="+",
        metavar="RECORDING",
        help="rosbag2 folder, or file .db3, .mcap or .csv",
    )
    _add_robot(replay)
    replay.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help="parameter file of the detector node (section contact_detector); without it, "
        "thresholds are defaults and friction is not modelled",
    )
    replay.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="true contacts to score against, instead of those in the recording; columns "
        "recording, begin [s], end [s], link, force [N]",
    )
    replay.add_argument(
        "--curve",
        action="store_true",
        help="also score with higher and lower thresholds: delay against false alarms",
    )
    replay.add_argument(
        "--report", type=Path, metavar="DIR", help="folder for report.json and the pictures"
    )
    replay.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    replay.set_defaults(run=_run_replay)


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="identify friction, model corrections, gains and thresholds from contact-free motion",
        description="Identify joint friction and corrections of the masses, and choose observer "
        "gains and thresholds of the contact detector, from recordings without contact. The "
        "result is a parameter file of the node, with the false-alarm rate it implies.",
    )
    calibrate.add_argument(
        "recordings",
        type=Path,
        nargs="+",
        metavar="RECORDING",
        help="rosbag2 folder, or file .db3, .mcap or .csv; at least 20 s in total",
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
        help="acceptable false alarms per hour, over all joints (default: 1)",
    )
    calibrate.add_argument(
        "--effort",
        choices=("torque", "current", "torque_without_gravity"),
        default="torque",
        help="what the recorded effort is: joint torque, motor current (the torque per unit of "
        "each drive is identified), or torque from which the driver has subtracted gravity "
        "(default: torque)",
    )
    calibrate.add_argument(
        "--effort-gain",
        type=_numbers,
        metavar="G,...",
        help="torque per unit of effort, one number for all joints or one per joint; the sign "
        "counts",
    )
    _add_drive_gains(calibrate)
    calibrate.add_argument(
        "--observer",
        choices=("momentum", "second_order"),
        default="second_order",
        help="kind of observer (default: second_order)",
    )
    calibrate.add_argument(
        "--gain",
        type=_positive,
        metavar="K",
        help="observer gain [1/s] (default: chosen for each joint)",
    )
    calibrate.add_argument("--report", type=Path, metavar="DIR", help="folder for calibration.png")
    calibrate.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    calibrate.set_defaults(run=_run_calibrate)


def _add_drive_gains(calibrate: argparse.ArgumentParser) -> None:
    """Add the arguments that tell what is known of the drives beforehand."""
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
        type=_positive,
        default=4.0,
        metavar="PERCENT",
        help="refuse gains whose relative standard error exceeds this (default: 4)",
    )
    group.add_argument(
        "--mass-error",
        type=_positive,
        default=5.0,
        metavar="PERCENT",
        help="standard deviation of the masses of the URDF, which limits what free motion tells; "
        "that of the centres of mass is 2 mm for each percent (default: 5)",
    )


def _add_monitor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    monitor = commands.add_parser(
        "monitor",
        help="show residuals and contacts of a running detector",
        description="Show what a running contact detector publishes: residuals beside their "
        "thresholds, the verdict, link and force, and events. If the output is not a terminal, "
        "events are printed as they come, and one table at the end.",
        epilog="exit code 1 if nothing was received from the detector",
    )
    monitor.add_argument(
        "--detector",
        default="contact_detector",
        metavar="NODE",
        help="name of the detector's node, with its namespace (default: contact_detector)",
    )
    monitor.add_argument("--duration", type=_seconds, metavar="S", help="end after this time [s]")
    monitor.add_argument("--once", action="store_true", help="print one table and end")
    monitor.set_defaults(run=_run_monitor)


def _add_view(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    view = commands.add_parser(
        "view",
        help="show the arm, its residuals and contacts in the browser",
        description="Show an arm in 3D in the browser, with the force and the link of each "
        "contact, the residuals in units of their thresholds, and the events: live from the topics "
        "of the running nodes, or from a recording, which is run through the detector first. The "
        "page cannot command the arm.",
        epilog="exit code 1 if nothing was received from live arms",
    )
    view.add_argument(
        "recording",
        type=Path,
        nargs="?",
        metavar="RECORDING",
        help="rosbag2 folder, or file .db3, .mcap or .csv (default: live)",
    )
    _add_robot(view)
    view.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help="parameter file of the detector node, for a recording; without it, thresholds are "
        "defaults and friction is not modelled",
    )
    view.add_argument(
        "--namespace",
        nargs="+",
        default=[],
        metavar="NS",
        help="namespaces of the live arms, which stand side by side (default: one arm without)",
    )
    view.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, which other machines cannot reach)",
    )
    view.add_argument(
        "--port", type=_port, default=8080, help="port to listen on, 0 for any (default: 8080)"
    )
    view.add_argument("--duration", type=_seconds, metavar="S", help="end after this time [s]")
    view.set_defaults(run=_run_view)


def _add_payload(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    payload = commands.add_parser(
        "payload",
        help="send the payload of the arm to the running nodes",
        description="Tell detector and controller what the arm carries from now on, beside what "
        "its description has. Without options: nothing. An arm that compensates gravity by itself "
        "(gravity_compensated) must be told by its own interface, too.",
        epilog="exit code 1 if no node listens, or one refuses",
    )
    payload.add_argument("--mass", type=_finite, default=0.0, metavar="KG", help="mass [kg]")
    payload.add_argument(
        "--com",
        type=_numbers,
        default=(0.0, 0.0, 0.0),
        metavar="X,Y,Z",
        help="centre of mass in the frame of the link [m]",
    )
    payload.add_argument(
        "--inertia",
        type=_numbers,
        default=(0.0,) * 6,
        metavar="XX,YY,ZZ,XY,XZ,YZ",
        help="rotational inertia about the centre of mass [kg·m²] (default: a point mass)",
    )
    payload.add_argument(
        "--link", default="", metavar="NAME", help="link that carries it (default: the last one)"
    )
    payload.add_argument("--namespace", default="", metavar="NS", help="namespace of the nodes")
    payload.set_defaults(run=_run_payload)


def _add_warmup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    warmup = commands.add_parser(
        "warmup",
        help="compile ahead of the first start",
        description="Compile everything that the nodes, replay, calibrate and demo use, once for "
        "each installation, and print where the compiled code is kept.",
    )
    warmup.set_defaults(run=_run_warmup)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser(
        "export",
        help="write the dynamics of a robot as plain C",
        description="Write the dynamics of one robot as C99 without dependencies, a header and a "
        "source beside it, for real-time controllers and firmware. Friction, corrections and "
        "payload of a parameter file count.",
    )
    export.add_argument(
        "urdf",
        metavar="URDF",
        help="URDF of the robot, 'arm7' for the arm that ships with the package, or a parameter "
        "file (.yaml) that names the arm in its section /**",
    )
    export.add_argument(
        "--to", type=Path, required=True, metavar="FILE.h", help="header to write; beside it FILE.c"
    )
    export.add_argument(
        "--functions",
        type=lambda text: text.split(","),
        metavar="A,B,...",
        help="functions to export, or 'all' (default: all but friction where there is none, and "
        "the Christoffel symbols of robots with many joints)",
    )
    export.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME",
        help="link whose placement and Jacobian are exported, or 'all'; may be repeated (default: "
        "the link that the last joint moves)",
    )
    export.add_argument(
        "--prefix", default="", help="beginning of all C names (default: the name of the header)"
    )
    export.add_argument(
        "--float",
        dest="single",
        action="store_true",
        help="compute in single precision (default: double)",
    )
    _add_lock(export, "hold a joint at a position [rad or m]; may be repeated")
    export.add_argument(
        "--joints",
        type=lambda text: text.split(","),
        metavar="A,B,...",
        help="joints that move; all others are held at zero (default: all)",
    )
    export.set_defaults(run=_run_export)


def _add_lock(command: argparse.ArgumentParser, meaning: str) -> None:
    """Add the argument that holds joints at a position."""
    command.add_argument(
        "--lock",
        type=_position,
        action="append",
        default=[],
        metavar="JOINT=POSITION",
        help=meaning,
    )


def _add_robot(command: argparse.ArgumentParser) -> None:
    """Add the arguments that tell which robot moved, and where in the recording."""
    command.add_argument(
        "--urdf",
        default="",
        metavar="FILE",
        help="URDF of the robot, 'arm7' for the arm that ships with the package, or a parameter "
        "file (.yaml) that names the arm in its section /**",
    )
    command.add_argument(
        "--topic",
        default="/joint_states",
        help="topic of the joint states in the recording (default: /joint_states)",
    )
    _add_lock(
        command,
        "hold a joint that the recording does not hold, at a position [rad or m]; may be repeated",
    )
    command.add_argument(
        "--recorded-joints",
        dest="joints",
        type=lambda text: text.split(","),
        metavar="A,B,...",
        help="names of the model's joints in the recording, in the order of the model; needed "
        "only if they differ by more than a prefix",
    )
    # The old name, which means something else as a parameter of the nodes.
    command.add_argument("--joints", type=lambda text: text.split(","), help=argparse.SUPPRESS)


def _run_calibrate(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.calibrate import run_calibrate

    return run_calibrate(arguments)


def _run_check(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.check import run_check

    return run_check(arguments)


def _run_replay(arguments: argparse.Namespace) -> int:
    # Numba and the rest take seconds to import, which --help need not wait for.
    from rbd_control.cli.replay import run_replay

    return run_replay(arguments)


def _run_export(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.export import run_export

    return run_export(arguments)


def _run_warmup(_arguments: argparse.Namespace) -> int:
    from rbd_control.cli.warmup import run_warmup

    return run_warmup()


def _run_monitor(arguments: argparse.Namespace) -> int:
    with ros_needed("the monitor"):
        from rbd_control.nodes.monitor import run_monitor
    code: int = run_monitor(arguments.detector, arguments.duration, arguments.once)
    return code


def _run_view(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.view import run_view

    with nullcontext() if arguments.recording else ros_needed("a live view"):
        return run_view(arguments)


def _run_payload(arguments: argparse.Namespace) -> int:
    from rbd_control.robot.payload import PayloadParameters

    payload = PayloadParameters(
        payload_mass=arguments.mass,
        payload_link=arguments.link,
        payload_com=arguments.com,
        payload_inertia=arguments.inertia,
    )
    with ros_needed("the command"):
        from rbd_control.nodes.payload_command import run_payload
    code: int = run_payload(payload, arguments.namespace)
    return code


def _run_demo(arguments: argparse.Namespace) -> int:
    with ros_needed("the demo"):
        from rbd_control.nodes.demo.run import run_demo
    code: int = run_demo(arguments.duration, arguments.report, arguments.json, arguments.view)
    return code


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


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}; give a number from 0 to 65535")
    return int(text)


def _position(text: str) -> tuple[str, float]:
    joint, equals, position = text.rpartition("=")
    if not equals or not joint:
        raise argparse.ArgumentTypeError(f"{text!r}; give JOINT=POSITION")
    return joint, _finite(position)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_finite(part) for part in text.split(","))


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


if __name__ == "__main__":
    sys.exit(main())
