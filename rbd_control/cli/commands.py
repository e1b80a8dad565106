"""The sub-commands with their arguments.

Each function ``add_…`` adds the arguments of a command to the parser, and stores the function that
runs the command as ``run`` in the parsed arguments; this function receives them and returns the
exit code. Slow imports are avoided, so that ``--help`` answers at once; a command imports the
modules that it needs when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rbd_control.cli.arguments import (
    RECORDING,
    URDF,
    Commands,
    add_config,
    add_duration,
    add_fleet,
    add_format,
    add_lock,
    add_outputs,
    add_recording,
    add_robot,
    add_trust,
    finite,
    names,
    namespace,
    node_name,
    numbers,
    port,
    position,
    positive,
    refuse_fleet_options,
    share,
)
from rbd_control.errors import InputError
from rbd_control.startup.standard_streams import ros_needed


@contextmanager
def _compilation_told() -> Iterator[None]:
    """Print one line to standard error before the first function that has to be compiled."""
    from rbd_control.startup.compilation import CompilationWatch

    told: list[str] = []

    def begins(kernel: str) -> None:
        if not told:
            print(
                "compiling functions not stored yet, which takes a minute or two; "
                "rbd-control warmup does it ahead",
                file=sys.stderr,
                flush=True,
            )
        told.append(kernel)

    with CompilationWatch(begins):
        yield


def add_demo(commands: Commands) -> None:
    """Add the sub-command ``demo`` with its arguments to the parser of ``rbd-control``."""
    demo = commands.add_parser(
        "demo",
        help="run a simulated arm, its controller and the detector over ROS 2",
        description="Run a simulated arm, its controller and the contact detector as ROS 2 nodes: "
        "a trajectory, pushes and a collision. Each contact is scored against the truth.",
    )
    add_duration(demo, "length of the motion [s] (default: 20)")
    add_outputs(demo, "demo.json, demo.html and picture")
    demo.add_argument(
        "--view", action="store_true", help="show the demo in the browser (see rbd-control view)"
    )
    demo.set_defaults(run=_run_demo)


def _run_demo(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.command_files import result_files
    from rbd_control.files.output_files import refuse_clashes

    refuse_clashes((), result_files(arguments, "demo.json", "demo.html", "demo.png"))
    with ros_needed("the demo"):
        from rbd_control.live.demo import run_demo
    code: int = run_demo(
        arguments.duration, arguments.report, arguments.json, arguments.view, arguments.html
    )
    from rbd_control.cli.next_command import RECORD

    why = "on your robot, in motion without contact that moves each joint, for 30 s"
    return _go_on(code, why, *RECORD)


def add_payload(commands: Commands) -> None:
    """Add the sub-command ``payload`` with its arguments to the parser of ``rbd-control``."""
    payload = commands.add_parser(
        "payload",
        help="set the payload of the running nodes",
        description="Set the payload of detector and controller, in addition to the description of "
        "the arm. Without options the payload is removed. Set the payload of an arm that "
        "compensates gravity by itself (gravity_compensated) in its own interface as well.",
        epilog="exit code 1 if no node listens, or a node refuses the payload",
    )
    payload.add_argument("--mass", type=finite, default=0.0, metavar="KG", help="mass [kg]")
    payload.add_argument(
        "--com",
        type=numbers,
        default=(0.0, 0.0, 0.0),
        metavar="X,Y,Z",
        help="centre of mass in the frame of the link [m]",
    )
    payload.add_argument(
        "--inertia",
        type=numbers,
        default=(0.0,) * 6,
        metavar="XX,YY,ZZ,XY,XZ,YZ",
        help="rotational inertia about the centre of mass [kg·m²] (default: a point mass)",
    )
    payload.add_argument(
        "--link", default="", metavar="NAME", help="link of the payload (default: the last)"
    )
    payload.add_argument(
        "--namespace", type=namespace, default="", metavar="NS", help="namespace of the nodes"
    )
    payload.set_defaults(run=_run_payload)


def _run_payload(arguments: argparse.Namespace) -> int:
    from rbd_control.robot.payload import PayloadParameters

    payload = PayloadParameters(
        payload_mass=arguments.mass,
        payload_link=arguments.link,
        payload_com=arguments.com,
        payload_inertia=arguments.inertia,
    )
    with ros_needed("the command"):
        from rbd_control.live.requests import run_payload
    code: int = run_payload(payload, arguments.namespace)
    return _go_on(code, "the residuals with this payload", *_monitor(arguments.namespace))


def _monitor(namespace: str) -> tuple[str, ...]:
    named = ("--detector", f"{namespace}/contact_detector") if namespace else ()
    return ("monitor", *named)


def _go_on(code: int, why: str, *words: str) -> int:
    """Print the next command after a success, and return the exit code."""
    if not code:
        from rbd_control.cli.next_command import print_next
        from rbd_control.reports.console import console_for_output

        print_next(console_for_output(), why, *words)
    return code


def add_check(commands: Commands) -> None:
    """Add the sub-command ``check`` with its arguments to the parser of ``rbd-control``."""
    check = commands.add_parser(
        "check",
        help="report the quality of a recording and the weakest detectable push",
        description="Print one page about a recording: whether joints, rate and stamps are right, "
        "the kind of each joint's effort, whether payload, mounting and order of the joints are "
        "as described, and the weakest detectable push on each link. Record a free motion in "
        "which every joint moves back and forth.",
        epilog="exit code 1 if a line is red (WRONG), 0 if all are green (GOOD) or yellow (LOOK)",
    )
    add_recording(check, "recording", nargs="?")
    add_robot(check)
    add_config(
        check,
        ": declared kind of effort, and thresholds; without it, efforts count as torques and "
        "thresholds are estimated from the recording",
    )
    add_outputs(check, "check.json and check.html")
    loop = check.add_argument_group(
        "control loop",
        "Instead of a recording, let a running controller measure its loop with small torques, "
        "while it holds the arm (mode hold): the delay, missing inertia of motors, resonance, and "
        "the largest stable gains. Exit code 1 if the delay is not determined.",
    )
    loop.add_argument("--loop", action="store_true", help="measure the loop of a controller")
    loop.add_argument(
        "--node",
        metavar="NAME",
        help="name of the controller (default: /passivity_controller)",
    )
    loop.add_argument(
        "--out",
        type=Path,
        metavar="YAML",
        help="write the result into this existing parameter file, in the section "
        "passivity_controller",
    )
    check.set_defaults(run=_run_check)


def _run_check(arguments: argparse.Namespace) -> int:
    if arguments.loop:
        return _measure_loop(arguments)
    if arguments.recording is None:
        raise InputError("give a recording, or --loop to measure the loop of a running controller")
    for name in ("node", "out"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} belongs to --loop; add --loop, or leave it out")
    from rbd_control.cli.check import run_check

    with _compilation_told():
        return run_check(arguments)


def _measure_loop(arguments: argparse.Namespace) -> int:
    if arguments.recording is not None:
        raise InputError("--loop needs a running controller and no recording; give one of them")
    with ros_needed("check --loop"):
        from rbd_control.live.requests import run_loop_check
    code: int = run_loop_check(arguments.node or "/passivity_controller", arguments.out)
    return code


def add_replay(commands: Commands) -> None:
    """Add the sub-command ``replay`` with its arguments to the parser of ``rbd-control``."""
    replay = commands.add_parser(
        "replay",
        help="run recordings through the contact detector",
        description="Run the joint states of recordings through the detector that the node runs, "
        "and print the detected contacts. If the true contacts are known, the detector is scored "
        "against them.",
        epilog="exit code 1 if the detector has no verdict at any time in one of the recordings, "
        "or a recording of a fleet cannot be used",
    )
    add_recording(replay, "recordings", nargs="+")
    add_robot(replay)
    add_config(
        replay,
        " (section contact_detector); without it, thresholds are defaults and friction is not "
        "modelled",
    )
    replay.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="true contacts for the score, which replace true contacts in the recording; columns "
        "recording, begin [s], end [s], link, force [N]",
    )
    replay.add_argument(
        "--curve",
        action="store_true",
        help="also score with higher and lower thresholds: delay against false alarms",
    )
    add_outputs(replay, "report.json, report.html and pictures")
    add_trust(replay)
    group = add_fleet(replay)
    group.add_argument(
        "--free",
        action="store_true",
        help="declare all recordings free of contact, so that each event is a false alarm",
    )
    replay.set_defaults(run=_run_replay)


def _run_replay(arguments: argparse.Namespace) -> int:
    if arguments.fleet:
        from rbd_control.cli.fleet import run_replay_fleet

        return run_replay_fleet(arguments)
    refuse_fleet_options(arguments)
    from rbd_control.cli.replay import run_replay

    with _compilation_told():
        return run_replay(arguments)


def add_calibrate(commands: Commands) -> None:
    """Add the sub-command ``calibrate`` with its arguments to the parser of ``rbd-control``."""
    calibrate = commands.add_parser(
        "calibrate",
        help="identify friction, model corrections, gains and thresholds from contact-free motion",
        description="Identify joint friction and corrections of the masses, and choose observer "
        "gains and thresholds of the contact detector, from recordings without contact. The "
        "result is a parameter file of the node, with the false-alarm rate it implies.",
        epilog="exit code 1 if the arm is better off without the calibration",
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
        default="momentum",
        help="kind of observer (default: momentum)",
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
    calibrate.set_defaults(run=_run_calibrate)


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
        default=25.0,
        metavar="PERCENT",
        help="refuse gains whose relative standard error exceeds this (default: 25); smaller "
        "errors raise thresholds and the weakest push",
    )
    group.add_argument(
        "--mass-error",
        type=positive,
        default=5.0,
        metavar="PERCENT",
        help="standard deviation of the masses of the URDF, which limits the accuracy of gains "
        "from free motion; 2 mm of the centres of mass for each percent (default: 5)",
    )


def _run_calibrate(arguments: argparse.Namespace) -> int:
    if arguments.fleet:
        from rbd_control.cli.fleet import run_calibrate_fleet

        return run_calibrate_fleet(arguments)
    refuse_fleet_options(arguments)
    if not arguments.out:
        raise InputError("no output: give --out YAML, or --fleet DIR for a table of many arms")
    from rbd_control.cli.calibrate import run_calibrate

    with _compilation_told():
        return run_calibrate(arguments)


def add_excite(commands: Commands) -> None:
    """Add the sub-command ``excite`` with its arguments to the parser of ``rbd-control``."""
    excite = commands.add_parser(
        "excite",
        help="design the motion that calibrates an arm",
        description="Design a motion of all joints whose recording determines what calibrate "
        "identifies, within the limits of the arm and a stated space. What the motion does and "
        "what it determines is printed; nothing moves. The result is a JointTrajectory as YAML, in "
        "rounds that begin and end at rest in one pose.",
    )
    excite.add_argument("--urdf", default="", metavar="FILE", help=URDF)
    add_lock(excite, "hold a joint at a position [rad or m]; may be repeated")
    excite.add_argument(
        "--out", type=Path, required=True, metavar="YAML", help="trajectory to write"
    )
    length = excite.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="30 s of motion (default)")
    length.add_argument("--full", action="store_true", help="3 min of motion")
    excite.add_argument(
        "--start",
        type=position,
        action="append",
        default=[],
        metavar="JOINT=POSITION",
        help="pose at the start [rad or m]; may be repeated (default: near the middle of the "
        "range)",
    )
    add_space(excite)
    excite.add_argument(
        "--share",
        type=share,
        default=0.8,
        metavar="S",
        help="share of the limits of velocity and acceleration that is used (default: 0.8)",
    )
    excite.add_argument(
        "--acceleration",
        type=numbers,
        metavar="A,...",
        help="acceleration limits, one number or one per joint [rad/s² or m/s²] (default: from the "
        "limits of effort and velocity)",
    )
    excite.add_argument(
        "--noise",
        type=numbers,
        metavar="N,...",
        help="error of the filtered torques for which the errors are computed, one number or one "
        "per joint [N·m or N] (default: 0.3 %% of the effort limits)",
    )
    excite.add_argument(
        "--payload",
        type=positive,
        metavar="KG",
        help="also compute the errors of drive gains, with this payload in a second recording",
    )
    excite.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    excite.add_argument(
        "--speed",
        type=share,
        default=1.0,
        metavar="S",
        help="share of the full speed at which the motion is written (default: 1)",
    )
    excite.add_argument(
        "--from",
        dest="begin",
        type=finite,
        default=0.0,
        metavar="T",
        help="leave out the rounds that end before this time [s]",
    )
    excite.add_argument(
        "--motion",
        type=Path,
        metavar="YAML",
        help="existing motion to write at another --speed or --from a later round, in place of a "
        "new one",
    )
    excite.add_argument(
        "--report", type=Path, metavar="DIR", help="folder for excite.png, a picture of the motion"
    )
    excite.set_defaults(run=_run_excite)


def _run_excite(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.excite import run_excite

    with _compilation_told():
        return run_excite(arguments)


def add_fleet_report(commands: Commands) -> None:
    """Add the sub-command ``fleet-report`` with its arguments to the parser of ``rbd-control``."""
    report = commands.add_parser(
        "fleet-report",
        help="compare the results of many recordings: by arm, by day, drift of friction",
        description="Summarise the results of replay and calibrate with --fleet: false alarms per "
        "hour, delays, thresholds and friction of each arm and day, and the drift of friction "
        "over time with its standard error.",
        epilog="exit code 1 if none of the recordings could be used",
    )
    report.add_argument("folder", type=Path, metavar="DIR", help="the folder of --fleet")
    report.add_argument(
        "--report", type=Path, metavar="DIR", help="folder for the tables (default: the same)"
    )
    add_format(report)
    report.set_defaults(run=_run_fleet_report)


def _run_fleet_report(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.fleet import run_fleet_report

    return run_fleet_report(arguments)


def add_monitor(commands: Commands) -> None:
    """Add the sub-command ``monitor`` with its arguments to the parser of ``rbd-control``."""
    monitor = commands.add_parser(
        "monitor",
        help="show residuals and contacts of a running detector",
        description="Show the output of a running contact detector: residuals beside their "
        "thresholds, the verdict, link and force, and events. If the output is not a terminal, "
        "events are printed when they are received, and one table at the end.",
        epilog="exit code 1 if nothing was received from the detector",
    )
    monitor.add_argument(
        "--detector",
        type=node_name,
        default="contact_detector",
        metavar="NODE",
        help="name of the detector's node, with its namespace (default: contact_detector)",
    )
    add_duration(monitor)
    monitor.add_argument("--once", action="store_true", help="print one table and end")
    monitor.set_defaults(run=_run_monitor)


def _run_monitor(arguments: argparse.Namespace) -> int:
    with ros_needed("the monitor"):
        from rbd_control.live.monitor import run_monitor
    code: int = run_monitor(arguments.detector, arguments.duration, arguments.once)
    namespace = arguments.detector.rpartition("/")[0]
    words = ("--namespace", namespace) if namespace else ()
    if code:
        _go_on(0, "the nodes that run", "ros2", "node", "list")
        return code
    return _go_on(code, "the same in 3D in the browser", "view", *words)


def add_view(commands: Commands) -> None:
    """Add the sub-command ``view`` with its arguments to the parser of ``rbd-control``."""
    view = commands.add_parser(
        "view",
        help="show the arm, its residuals and contacts in the browser",
        description="Show an arm in 3D in the browser, with the force and the link of each "
        "contact, the residuals in units of their thresholds, and the events: live from the topics "
        "of the running nodes, or from a recording, which is run through the detector first. The "
        "page cannot command the arm.",
        epilog="exit code 1 if nothing was received from live arms",
    )
    add_recording(view, "recording", nargs="?", help=f"{RECORDING} (default: live)")
    add_robot(view)
    add_config(
        view,
        ", for a recording; without it, thresholds are defaults and friction is not modelled; for "
        "live arms it gives the robot that is drawn",
    )
    view.add_argument(
        "--namespace",
        type=namespace,
        nargs="+",
        default=[],
        metavar="NS",
        help="namespaces of the live arms, shown side by side (default: one arm without namespace)",
    )
    view.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, which other machines cannot reach)",
    )
    view.add_argument(
        "--port", type=port, default=8080, help="port to listen on, 0 for any (default: 8080)"
    )
    add_duration(view)
    view.set_defaults(run=_run_view)


def _run_view(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.view import run_view

    with _compilation_told() if arguments.recording else ros_needed("a live view"):
        return run_view(arguments)


def add_export(commands: Commands) -> None:
    """Add the sub-command ``export`` with its arguments to the parser of ``rbd-control``."""
    export = commands.add_parser(
        "export",
        help="write the dynamics of a robot as plain C",
        description="Write the dynamics of one robot as C99 without dependencies, a header and a "
        "source beside it, for real-time controllers and firmware. The code includes friction, "
        "corrections and payload of a parameter file.",
    )
    export.add_argument("urdf", metavar="URDF", help=URDF)
    export.add_argument(
        "--out",
        "--to",
        type=Path,
        required=True,
        metavar="FILE.h",
        help="header to write; beside it FILE.c",
    )
    export.add_argument(
        "--functions",
        type=names,
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
    add_lock(export, "hold a joint at a position [rad or m]; may be repeated")
    export.add_argument(
        "--joints",
        type=names,
        metavar="A,B,...",
        help="joints that move; all others are held at zero (default: all)",
    )
    export.set_defaults(run=_run_export)


def _run_export(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.export import run_export

    return run_export(arguments)


def add_warmup(commands: Commands) -> None:
    """Add the sub-command ``warmup``, without arguments, to the parser of ``rbd-control``."""
    warmup = commands.add_parser(
        "warmup",
        help="compile ahead of the first start",
        description="Compile everything that the nodes, replay, calibrate and demo use, once for "
        "each installation, and print the folder of the compiled code.",
    )
    warmup.set_defaults(run=_run_warmup)


def _run_warmup(_arguments: argparse.Namespace) -> int:
    from rbd_control.cli.warmup import run_warmup

    return run_warmup()


def add_space(command: argparse.ArgumentParser) -> None:
    """Add the arguments ``--box`` and ``--floor``, which bound the motion of an arm."""
    command.add_argument(
        "--box",
        type=finite,
        nargs=6,
        metavar=("X0", "X1", "Y0", "Y1", "Z0", "Z1"),
        help="box that no moving link leaves, in the frame of the base [m] (default: none)",
    )
    command.add_argument(
        "--floor",
        type=finite,
        metavar="Z",
        help="height of the floor [m] (default: that of the base, if the arm stands)",
    )


def add_commission(commands: Commands) -> None:
    """Add the sub-command ``commission`` with its arguments to the parser of ``rbd-control``."""
    commission = commands.add_parser(
        "commission",
        help="check, move and calibrate an arm, step by step",
        description="The first hour with an arm: check it at rest, design a motion from where it "
        "stands, move slowly and check, move fast and check, calibrate, move once more and count "
        "false contacts. The arm moves only after you type yes, and stops at a contact. Each step "
        "can be repeated alone with --step.",
        epilog="exit code 1 if a step did not end well",
    )
    commission.add_argument("--urdf", default="", metavar="FILE", help=URDF)
    commission.add_argument(
        "--topic", default="joint_states", help="topic of the joint states (default: joint_states)"
    )
    commission.add_argument(
        "--trajectories",
        default="",
        metavar="TOPIC",
        help="topic of the trajectory controller, such as "
        "/joint_trajectory_controller/joint_trajectory (default: the only one with a subscriber)",
    )
    commission.add_argument(
        "--step",
        nargs="+",
        metavar="NAME",
        choices=("rest", "design", "slow", "fast", "calibrate", "validate"),
        help="only these steps: %(choices)s",
    )
    commission.add_argument(
        "--folder",
        type=Path,
        default=Path("commission"),
        metavar="DIR",
        help="folder of recordings and reports (default: commission)",
    )
    commission.add_argument(
        "--out",
        type=Path,
        default=Path("arm.yaml"),
        metavar="YAML",
        help="the arm file to write (default: arm.yaml)",
    )
    commission.add_argument(
        "--effort", default="", metavar="KIND", help="kind of the efforts, as for calibrate"
    )
    commission.add_argument("--full", action="store_true", help="a motion of 3 min, not of 30 s")
    commission.add_argument(
        "--speed",
        type=share,
        default=0.1,
        metavar="S",
        help="share of the full speed of the slow motion (default: 0.1)",
    )
    add_space(commission)
    commission.add_argument(
        "--watch",
        type=positive,
        default=2.0,
        metavar="FACTOR",
        help="thresholds that stop the motion, as multiples of the default ones (default: 2)",
    )
    commission.set_defaults(run=_run_commission)


def _run_commission(arguments: argparse.Namespace) -> int:
    with ros_needed("the command"):
        from rbd_control.cli.commission import run_commission
    with _compilation_told():
        return run_commission(arguments)


COMMANDS = (
    add_demo,
    add_commission,
    add_payload,
    add_check,
    add_replay,
    add_excite,
    add_calibrate,
    add_fleet_report,
    add_monitor,
    add_view,
    add_export,
    add_warmup,
)
"""The functions of all sub-commands, in the order of the help."""
