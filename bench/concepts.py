"""``python -m bench.concepts``: draw the three pictures of ``docs/concepts.md``.

``chain.svg`` shows the way from the robot to your code, ``residual.svg`` the residual in the
recording of a real Panda, ``threshold.svg`` delays and false contacts over the thresholds. They go
to the folder that ``--out`` names. The pictures are as narrow as the page on a phone, and have a
white background, so that they can be read on a dark page as well. It needs the extra ``test``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from numpy.typing import NDArray

from bench.contacts.arms import arm
from rbd_control.dynamics import frame_jacobian, inverse_dynamics
from rbd_control.estimation import ContactDetector
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.measures import scaled
from rbd_control.playback.recording import read_recording

Array = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "test" / "data"

REAL = (
    DATA / "real_panda" / "panda_exciting_trajectory.db3",
    ROOT / "config" / "panda_franka.yaml",
)
"""Recording of a real arm, and its parameter file."""
SIMULATED = ROOT / "config" / "panda_mujoco.yaml"
"""Parameter file of the simulated recordings."""

WIDTH = 4.2
"""Width of the pictures [inch]; the size of the text suits it."""
BLUE, RED, GREY, ORANGE = "#1f5fa8", "#c0392b", "#666666", "#d9822b"

SHOWN = (6.0, 18.0)
"""Part of the recording of the real arm that the picture shows [s]."""
JOINT = 3
"""Joint of the picture of the residual, from 0."""
PUSH, PUSHED = 20.0, (13.0, 14.5)
"""Force of the push that is added at the last link [N], and its beginning and end [s]."""
FACTORS = np.geomspace(0.25, 8.0, 21)
"""Factors of the calibrated thresholds."""
TOUCHES = {"push20_link7": ("20 N on link 7", 1.5), "push8_link4": ("8 N on link 4", 1.5)}
"""Pushes of the picture of the threshold by recording: what they are, and when they begin [s]."""
LENGTH = 0.4
"""Length of these pushes [s]."""
TICKS = {"1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}
"""Factors with a label on the axis."""

STEPS = (
    ("robot", "motors, encoders, torque or current sensors"),
    ("driver", "ros2_control, vendor's driver"),
    ("contact detector", "model of the arm: residual, threshold, verdict"),
    ("your code", "contact controller, guard, your node"),
)
"""Boxes of the picture of the chain: names and contents."""
MESSAGES = (
    "vendor's protocol",
    "joint_states: position, velocity, effort",
    "~/contact, ~/events; silence: no verdict",
)
"""What passes from each box to the next."""


def main(arguments: Sequence[str]) -> None:
    """Draw the pictures and write them to the folder of ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m bench.concepts", description=__doc__)
    folder = ROOT / "docs" / "images"
    parser.add_argument("--out", type=Path, default=folder, metavar="FOLDER", help="(docs/images)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    # Text as text would be drawn with other fonts; the salt makes the file the same each time.
    style: Any = {"svg.fonttype": "path", "svg.hashsalt": "rbd_control", "font.size": 10.0}
    with mpl.rc_context(style):
        for name, draw in (("chain", chain), ("residual", residual), ("threshold", threshold)):
            path = given.out / f"{name}.svg"
            canvas: Any = FigureCanvasSVG(draw())
            canvas.print_svg(path, metadata={"Date": None})
            print(path)


def chain() -> Figure:
    """Draw the way from the robot to your code, from top to bottom."""
    figure = Figure(figsize=(WIDTH, 4.2), facecolor="white")
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.06, 1.0)
    high, gap = 0.135, 0.255
    for k, (name, content) in enumerate(STEPS):
        top = 0.98 - k * gap
        colour = BLUE if name == "contact detector" else GREY
        box = FancyBboxPatch(
            (0.05, top - high), 0.9, high, "round,pad=0,rounding_size=0.02", fc="white", ec=colour
        )
        box.set_linewidth(1.6)
        ax.add_patch(box)
        ax.text(0.5, top - 0.048, name, ha="center", va="center", weight="bold", color=colour)
        ax.text(0.5, top - 0.1, content, ha="center", va="center", size=9.5)
    for k, message in enumerate(MESSAGES):
        top = 0.98 - k * gap - high
        arrow = FancyArrowPatch(
            (0.1, top), (0.1, top - gap + high), arrowstyle="-|>", mutation_scale=14, color=GREY
        )
        ax.add_patch(arrow)
        ax.text(0.15, top - (gap - high) / 2, message, va="center", size=9.5)
    return figure


def residual() -> Figure:
    """Draw torque, torque of the model and residual of one joint of a real Panda."""
    path, config = REAL
    recording = read_recording(path)
    robot, parameters = configured_robot(arm("panda").urdf, config, {}, [recording])
    model = robot.model
    names = [name.replace("panda", "fer") for name in model.joint_names]
    samples = next(recording.sample_blocks(JointStateIntake(names)))
    assert samples.v is not None
    assert samples.tau is not None
    t = samples.stamp - samples.stamp[0]
    push = np.where((t >= PUSHED[0]) & (t < PUSHED[1]), PUSH, 0.0)
    # Along y of the root link; a motor that holds against a push has its torque less.
    J = frame_jacobian(model, samples.q, model.joint_links[-1])
    tau = samples.tau - push[:, None] * J[:, 4, :]
    detector = ContactDetector(model, parameters)
    found = detector.update_block(samples.stamp, samples.q, samples.v, tau)
    a = np.gradient(samples.v, t, axis=0)
    expected = inverse_dynamics(model, samples.q, samples.v, a)
    expected += robot.friction.torque(samples.v)
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(t, tau[:, JOINT], color=BLUE, label="measured")
    above.plot(t, expected[:, JOINT], color=ORANGE, ls="--", label="of the model")
    above.set_ylabel("torque [N·m]")
    above.legend(loc="upper left", ncols=2, frameon=False)
    _room(above, 0.3)
    limit = found.threshold[:, JOINT]
    below.fill_between(t, -limit, limit, color="#e3e9f2", label="below the threshold")
    below.plot(t, found.residual[:, JOINT], color=RED, label="residual")
    below.set_ylabel("residual [N·m]")
    below.set_xlabel("time [s]")
    below.legend(loc="upper left", ncols=2, frameon=False)
    below.set_xlim(SHOWN)
    _room(below, 0.35)
    for ax in (above, below):
        ax.axvspan(*PUSHED, color="#f6d9c4", zorder=0)
    return figure


def threshold() -> Figure:
    """Draw delays of pushes and false contacts over the factor of the thresholds."""
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True)
    for (name, (text, begin)), colour in zip(TOUCHES.items(), (BLUE, ORANGE), strict=True):
        delays = np.array([1e3 * _delay(*flags, begin) for flags in _flags(name)])
        above.plot(FACTORS, delays, "o-", ms=3.5, color=colour, label=text)
        last = np.flatnonzero(np.isfinite(delays))[-1]
        if last + 1 < FACTORS.size:
            place = (1.06 * FACTORS[last], delays[last])
            above.text(*place, "then missed", color=colour, va="center", size=9.5)
    above.set_ylabel("delay of a push [ms]")
    above.legend(loc="upper left", frameon=False)
    _room(above, 0.5)
    shares = [100.0 * raised.mean() for _, raised in _flags("free")]
    below.plot(FACTORS, shares, "s-", ms=3.5, color=RED)
    below.set_ylabel("time in false contact [%]")
    below.set_xlabel("all thresholds, as multiples of the calibrated ones")
    below.set_xscale("log")
    below.set_xticks(list(TICKS.values()), list(TICKS))
    below.minorticks_off()
    for ax in (above, below):
        ax.axvline(1.0, color=GREY, lw=0.8, ls=":")
    return figure


def _flags(name: str) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """Yield the times of a simulated recording [s] and the contact flag, for each factor."""
    recording = read_recording(DATA / name)
    robot, parameters = configured_robot(arm("panda").urdf, SIMULATED, {}, [recording])
    # The recordings are too short to learn the friction of the day, which is that of the file.
    parameters = replace(parameters, follow_friction=False)
    blocks = list(recording.sample_blocks(JointStateIntake(robot.model.joint_names)))
    t = np.concatenate([block.stamp for block in blocks])
    for factor in FACTORS:
        detector = ContactDetector(robot.model, scaled(parameters, float(factor)))
        found = [detector.update_block(b.stamp, b.q, b.v, b.tau).contact for b in blocks]
        yield t - t[0], np.concatenate(found)


def _delay(t: Array, raised: NDArray[np.bool_], begin: float) -> float:
    """Return the time from the beginning of a push to the flag [s]; NaN if it does not rise."""
    during = (t > begin) & (t < begin + LENGTH)
    if not raised[during].any() or raised[t <= begin][-1]:
        return np.nan
    return float(t[during & raised][0] - begin)


def _room(ax: Axes, share: float) -> None:
    """Leave room for the legend above the curves."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + share * (high - low))


if __name__ == "__main__":
    main(sys.argv[1:])
