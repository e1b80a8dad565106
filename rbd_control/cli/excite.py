"""``rbd-control excite``: the motion that calibrates an arm, as a trajectory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from rbd_control.cli.command_files import arm_files
from rbd_control.cli.next_command import print_next
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import inverse_dynamics
from rbd_control.errors import InputError
from rbd_control.excitation import (
    FULL,
    QUICK,
    Design,
    Designer,
    Request,
    at_speed,
    read_trajectory_file,
    rests,
    resumed,
    trajectory_yaml,
)
from rbd_control.excitation.motion import LEAD, SPAN
from rbd_control.excitation.observability import DETERMINED
from rbd_control.files.output_files import NamedFile, prepare_output, refuse_clashes, write_whole
from rbd_control.identification.drive_gains import (
    DriveGain,
    DriveGainError,
    GainEvidence,
    KnownPayload,
    drive_gains,
)
from rbd_control.identification.motion import RecordedMotion
from rbd_control.reports.console import console_for_output
from rbd_control.reports.page import Row, Table, of_units
from rbd_control.robot import Robot
from rbd_control.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

PICTURE = "excite.png"
"""Name of the picture in the folder of ``--report``."""
SLOW = 0.1
"""Speed of the first round on a real arm."""
SHOWN = 0.02
"""Period of the samples from which speeds, torques and the picture are computed [s]."""
SAMPLE = 0.01
"""Period of the joint states in the prediction of drive gains [s]."""
TOPIC = "/passivity_controller/joint_trajectory"
"""Topic of the trajectories of the controller of this package."""
WORDS = {
    "mass_correction": "mass",
    "com_correction_x": "centre x",
    "com_correction_y": "centre y",
    "com_correction_z": "centre z",
    "rotor_inertia": "rotor inertia",
    "coulomb": "Coulomb friction",
    "viscous": "viscous friction",
    "offset": "offset",
    "excess": "Stribeck excess",
    "velocity_delay": "delay of the velocity",
}
"""The unknowns in words."""


def run_excite(arguments: argparse.Namespace) -> int:
    """Design a motion, or change the speed or the beginning of an existing one; return 0.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Raises:
        RbdControlError: for bad input; the message names joint, value, limit and remedy.
        OSError: naming a file that cannot be written.
    """
    out: Path = arguments.out
    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out is {out.name}; give a file that ends with .yaml")
    inputs = list(arm_files(arguments.urdf, None))
    if arguments.motion:
        inputs.append(NamedFile("--motion", arguments.motion))
    outputs = [NamedFile("--out", out)]
    if arguments.report:
        outputs.append(NamedFile("--report", arguments.report / PICTURE))
    refuse_clashes(inputs, outputs)
    for output in outputs:
        prepare_output(output.path)
    console = console_for_output()
    if arguments.motion:
        return _change(arguments, console)
    if not arguments.urdf:
        raise InputError("no arm: give --urdf FILE, or --motion YAML to change an existing motion")
    robot = Robot.load(arguments.urdf, locked=dict(arguments.lock))
    request = Request(
        rounds=FULL if arguments.full else QUICK,
        start=dict(arguments.start),
        box=None if arguments.box is None else tuple(arguments.box),
        floor=arguments.floor,
        share=arguments.share,
        acceleration=arguments.acceleration or (),
        noise=arguments.noise or (),
        seed=arguments.seed,
    )
    designer = Designer(robot, request)
    with console.status("designing the motion") as status:
        design = designer.run(
            lambda done, best: status.update(f"{done} motions compared, error {best:.3f}")
        )
    print_design(design, console, _gains(design, robot, arguments.payload))
    points = at_speed(design.motion.points(), arguments.speed)
    heading = (
        f"Motion for the calibration of {robot.model.name}, made by rbd-control excite.\n"
        f"It begins and ends at rest in {_named(design.motion.joints, design.motion.start)}."
    )
    _write(out, design.motion.joints, resumed(points, arguments.begin), heading, console)
    if arguments.report:
        draw(design, arguments.report / PICTURE)
        console.print(f"picture in {arguments.report / PICTURE}", markup=False)
    words = ("excite", "--motion", out, "--speed", f"{SLOW:g}", "--out", f"slow_{out.name}")
    print_next(console, "a slow first round; move the arm to the start pose before", *words)
    return 0


def _change(arguments: argparse.Namespace, console: Console) -> int:
    """Write an existing motion at another speed, or from a later round on; return 0."""
    joints, points = read_trajectory_file(arguments.motion)
    if arguments.urdf:
        model = Robot.load(arguments.urdf, locked=dict(arguments.lock)).model
        for name in joints:
            model.joint_index(name)  # raises InputError for an unknown joint
    points = at_speed(resumed(points, arguments.begin), arguments.speed)
    ends = ", ".join(f"{points.times[k]:.1f}" for k in rests(points))
    console.print(
        f"{points.times[-1]:.1f} s, at rest in {_named(joints, points.positions[0])} at {ends} s",
        markup=False,
    )
    heading = f"Made from {arguments.motion.name} at {arguments.speed:g} of its speed."
    _write(arguments.out, joints, points, heading, console)
    message = f'"$(cat {arguments.out})"'
    console.print(
        "next, with the detector running, record and play it:\n"
        "  ros2 bag record /joint_states -o free\n"
        f"  ros2 topic pub --once {TOPIC} trajectory_msgs/msg/JointTrajectory {message}",
        markup=False,
        soft_wrap=True,
    )
    return 0


def _write(
    path: Path, joints: tuple[str, ...], points: TrajectoryArrays, heading: str, console: Console
) -> None:
    write_whole(path, trajectory_yaml(joints, points, heading).encode())
    console.print(f"motion in {path}", markup=False)


def _named(joints: Sequence[str], q: Array) -> str:
    return ", ".join(f"{name} {x:.3f}" for name, x in zip(joints, q, strict=True))


def print_design(design: Design, console: Console, gains: Sequence[DriveGain] = ()) -> None:
    """Print what a motion does to the arm, and what it will determine.

    Args:
        design: the motion.
        console: receives the text.
        gains: predicted gains of the drives; empty without a payload.
    """
    motion, rounds = design.motion, design.motion.rounds
    shares = ", ".join(
        f"{'forward' if share > 0.0 else 'backward'} at {abs(share):.0%}" for share in rounds.shares
    )
    console.print(
        f"motion of {rounds.motion_seconds:.1f} s after {LEAD:g} s at the start pose: a loop of "
        f"{rounds.spans * SPAN:g} s, {shares}\nstart pose: {_named(motion.joints, motion.start)}",
        markup=False,
    )
    console.print(_effort_table(design).on_console())
    low, high = design.space.swept(motion.loop(SHOWN)[0])
    box = ", ".join(f"{a} {x:.2f} to {y:.2f}" for a, x, y in zip("xyz", low, high, strict=True))
    floor = f"; floor at z = {design.space.floor:g}" if np.isfinite(design.space.floor) else ""
    console.print(f"the arm sweeps, in the frame of its base [m]: {box}{floor}", markup=False)
    for note in design.space.notes:
        console.print(f"note: {printable(note)}", markup=False)
    console.print(_error_table(design).on_console())
    errors, prior = design.errors, design.observability.prior
    k = design.observability.names.index((-1, "velocity_delay"))
    delay = f"± {1e3 * errors[k]:.2g} ms" if errors[k] < DETERMINED * prior[k] else "not determined"
    console.print(f"delay of the velocity: {delay}", markup=False)
    if gains:
        text = ", ".join(f"{gain.joint} ± {100.0 * gain.relative_error:.2g} %" for gain in gains)
        console.print(f"gains of the drives with this payload: {text}", markup=False)
    never, here = undetermined(design)
    for what, names in (
        ("by any motion of this arm", never),
        ("within these limits", here),
    ):
        console.print(f"not determined {what}: {'; '.join(names) or 'nothing'}", markup=False)
    console.print(
        f"expected torque error on other motions: {design.measure:.2f} times the noise",
        markup=False,
    )


def _effort_table(design: Design) -> Table:
    """Return the range, and the largest speed, acceleration and torque of each joint."""
    model, limits = design.observability.model, design.limits
    q, v, a = design.motion.loop(SHOWN)
    tau = inverse_dynamics(model, q, v, a)
    rows = []
    for i, joint in enumerate(model.joint_names):
        cells = [joint, f"{q[:, i].min():.2f} to {q[:, i].max():.2f}"]
        for values, most in (
            (v, limits.velocity),
            (a, limits.acceleration),
            (tau, limits.effort),
        ):
            largest = float(np.abs(values[:, i]).max())
            cells.append(f"{largest:.3g} ({largest / most[i]:.0%})")
        rows.append(Row(tuple(cells)))
    units = [model.torque_unit(i) for i in range(model.nv)]
    return Table(
        of_units("largest values, and shares of the limits", units),
        ("joint", "position [rad]", "speed [rad/s]", "acceleration [rad/s²]", "torque [N·m]"),
        tuple(rows),
        note="torque of gravity and inertia; friction adds to it",
        left=("joint",),
    )


def _error_table(design: Design) -> Table:
    """Return the predicted standard errors of friction and masses, joint by joint."""
    seen, model = design.observability, design.observability.model
    errors = dict(zip(seen.names, design.errors, strict=True))
    prior = dict(zip(seen.names, seen.prior, strict=True))

    def error(joint: int, name: str, scale: float = 1.0) -> str:
        key = (joint, name)
        if key not in errors or errors[key] >= DETERMINED * prior[key]:
            return "-"
        return f"{scale * errors[key]:.2g}"

    rows = []
    for i, joint in enumerate(model.joint_names):
        mass = model.arrays.mass[model.dof_row[i]]
        centre = " ".join(error(i, f"com_correction_{axis}", 1e3) for axis in "xyz")
        share = error(i, "mass_correction", 100.0 / mass if mass > 0.0 else 1.0)
        cells = [error(i, name) for name in ("coulomb", "viscous", "offset", "excess")]
        rows.append(Row((joint, *cells, share, centre, error(i, "rotor_inertia"))))
    units = [model.torque_unit(i) for i in range(model.nv)]
    headings = (
        "joint",
        "Coulomb [N·m]",
        "viscous [N·m·s/rad]",
        "offset [N·m]",
        "Stribeck [N·m]",
        "mass [%]",
        "centre x y z [mm]",
        "rotor [kg·m²]",
    )
    noise = ", ".join(f"{x:.2g}" for x in seen.noise)
    return Table(
        of_units("standard errors after this motion", units),
        headings,
        tuple(rows),
        note=f"for filtered torques with an error of {noise} {model.torque_unit()} (--noise); "
        "-: not determined",
        left=headings[:1],
    )


def undetermined(design: Design) -> tuple[list[str], list[str]]:
    """Return what no motion of the arm determines, and what this motion does not determine.

    An unknown is determined if its standard error is below half of its prior
    (:data:`~rbd_control.excitation.observability.DETERMINED`).

    Returns:
        Texts, each a joint or a link with its unknowns.
    """
    seen, model = design.observability, design.observability.model
    best = seen.best_errors()
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for k, (joint, name) in enumerate(seen.names):
        if design.errors[k] < DETERMINED * seen.prior[k]:
            continue
        of = "arm" if joint < 0 else model.joint_names[joint]
        if joint >= 0 and (name.startswith("com") or name.startswith("mass")):
            of = model.joint_links[joint]
        which = 0 if best[k] >= DETERMINED * seen.prior[k] else 1
        found[which].setdefault(of, []).append(WORDS[name])
    never, here = ([f"{of}: {', '.join(names)}" for of, names in each.items()] for each in found)
    return never, here


def _gains(design: Design, robot: Robot, payload: float | None) -> tuple[DriveGain, ...]:
    """Return the predicted gains of drives after this motion without and with a payload."""
    if payload is None:
        return ()
    seen, model = design.observability, robot.model
    random = np.random.default_rng(0)
    t, q, v, a = design.motion.sampled(SAMPLE)
    loaded = model.with_payload(model.joint_links[-1], payload, (0.0, 0.0, 0.05), np.zeros((3, 3)))
    motions = []
    for each in (model, loaded):
        tau = inverse_dynamics(each, q, v, a) + seen.typical_friction.torque(v)
        motions.append(RecordedMotion("", t, q, v, tau + seen.noise * random.normal(size=q.shape)))
    evidence = GainEvidence((KnownPayload([motions[1]], payload),))
    try:
        return drive_gains(motions[:1], model, 10.0 * SAMPLE, evidence)[0]
    except DriveGainError as error:
        return tuple(error.gains)


def draw(design: Design, path: Path) -> None:
    """Write a picture: the sweep from above and from the side, and the joint positions.

    Raises:
        OSError: if the file cannot be written.
    """
    from matplotlib.figure import Figure

    motion, space = design.motion, design.space
    figure = Figure(figsize=(11.0, 8.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.4, 1.0])
    q = motion.loop(0.1)[0]
    moving = space.capsules.body >= 0
    ends = space.capsules.placed(q)[:, moving]
    low, high = space.swept(motion.loop(SHOWN)[0])
    for column, (i, j, title) in enumerate(((0, 1, "from above"), (0, 2, "from the side"))):
        axes = figure.add_subplot(grid[0, column])
        for posture in ends[:: max(1, len(ends) // 80)]:
            for k, (a, b) in enumerate(posture):
                axes.plot(
                    [a[i], b[i]],
                    [a[j], b[j]],
                    color=f"C{k % 10}",
                    alpha=0.15,
                    linewidth=2.0,
                    solid_capstyle="round",
                )
        _rectangle(axes, low[[i, j]], high[[i, j]], "sweep", "--")
        if np.isfinite(space.lower).all() and np.isfinite(space.upper).all():
            _rectangle(axes, space.lower[[i, j]], space.upper[[i, j]], "box", "-")
        if j == 2 and np.isfinite(space.floor):
            axes.axhline(space.floor, color="k", label="floor")
        axes.set_aspect("equal")
        axes.set_title(title)
        axes.set_xlabel("xyz"[i] + " [m]")
        axes.set_ylabel("xyz"[j] + " [m]")
        axes.legend(loc="upper right", fontsize=8)
    axes = figure.add_subplot(grid[1, :])
    t, q, _, _ = motion.sampled(SHOWN)
    for k, joint in enumerate(motion.joints):
        axes.plot(t, q[:, k], label=joint)
    axes.set_xlabel("time [s]")
    axes.set_ylabel(f"position [{design.observability.model.position_unit()}]")
    axes.legend(loc="upper right", fontsize=7, ncols=4)
    content = BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_whole(path, content.getvalue())


def _rectangle(axes: Axes, low: Array, high: Array, label: str, style: str) -> None:
    x = [low[0], high[0], high[0], low[0], low[0]]
    y = [low[1], low[1], high[1], high[1], low[1]]
    axes.plot(x, y, style, color="k", linewidth=1.0, label=label)
