"""``python -m bench.hand_guide``: a simulated hand leads arms in MuJoCo through the real detector.

The UR10 takes positions at 125 Hz and follows them 20 ms late; the law of
:mod:`rbd_control.control.hand_guide` leads it. The Panda takes torques; it floats under the
passivity controller. The hand is a mass that muscles (spring and damper) pull along a path, and
that grips the tool. Results go to ``hand_guide.json`` in the folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.contacts.arms import arm
from bench.contacts.episode import stream
from bench.contacts.motion import Reference
from bench.contacts.plant import OBSTACLE, PERIOD, TIP, Plant
from bench.guard.motion import PickAndPlace
from bench.robots.plant import Plant as TorquePlant
from bench.robots.robots import ROBOTS
from bench.robots.session import Session
from rbd_control.control.hand_guide import Command, HandGuide, HandGuideParameters
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion, calibrate

CYCLE = 8
"""Steps of 1 ms between two joint states, and two commands: 125 Hz."""
DELAY, SMOOTHING = 0.008, 0.006
"""Delay of a command, and time constant of the two filters that smooth it [s]: 20 ms of lag."""
SERVO = 150.0
"""Natural frequency of the position loop of the drives [rad/s]; critically damped."""
ROTORS = np.array([0.5, 0.5, 0.3, 0.1, 0.1, 0.1])
"""Reflected inertias of the rotors, as in bench.robots [kg·m²]; the description lacks them."""
TORQUE_STEP = 0.05
"""Resolution of the measured torques [N·m]."""
SPEED = 0.1
"""Speed of the hand along its path [m/s]."""
GRIP = 1e4
"""Stiffness of the grip between hand and tool [N/m]."""
BEGIN, MOVE, HOLD = 1.5, 2.0, 2.0
"""Time for the tare, of each leg of the path and of the pause after the path [s]."""
KICK = 60.0, 0.02
"""Force on the tool and its duration, at the begin of the pause, which excites oscillations."""
FRICTION_ERROR = 0.1
"""Largest relative error of the friction that the Panda in torques compensates."""
REST = 0.005
"""Speed at which the tool counts as standing [m/s]."""
TOOL = "tool0"


@dataclass(frozen=True)
class Hand:
    """A hand: its mass, the stiffness of its muscles and their damping ratio."""

    mass: float
    stiffness: float
    damping_ratio: float

    @property
    def frequency(self) -> float:
        """Natural frequency [Hz]."""
        return float(np.sqrt(self.stiffness / self.mass) / (2.0 * np.pi))


HANDS = (
    Hand(8.0, 80.0, 0.7),
    Hand(2.0, 300.0, 0.5),
    Hand(1.0, 1000.0, 0.3),
    Hand(2.0, 3000.0, 0.3),
    Hand(1.0, 3000.0, 0.1),
    Hand(0.19, 3000.0, 0.1),
)
"""Hands from 0.5 to 20 Hz, from soft to as stiff as a tensed arm."""


class ServoArm:
    """An arm in MuJoCo whose drives follow positions that they get at 125 Hz, 20 ms late.

    Args:
        plant: the specimen.
        q: position at the start, (nv,) [rad].
        seed: seed of the noise.
    """

    def __init__(self, plant: Plant, q: np.ndarray, seed: int) -> None:
        self.plant = plant
        zero = np.zeros((1, q.size))
        plant.start(Reference(q[None], zero, zero))
        self._rng = np.random.default_rng(seed)
        self._count = 2.0 * np.pi / 2**plant.arm.encoder_bits
        self._weight = min(0.4, 0.4 * 2.0 ** (plant.arm.encoder_bits - 19) * 1.5)
        self._waiting = deque([q.copy()] * round(DELAY / PERIOD))
        self._target = self._from = self._to = q.copy()
        self._line, self._phase = q.copy(), 0
        self._reference, self._rate = q.copy(), np.zeros(q.size)
        self._last, self._v = self._encoders(), np.zeros(q.size)
        self.torque = np.zeros(q.size)

    def command(self, q: np.ndarray) -> None:
        """Set the position that the drives reach at the end of the next cycle."""
        self._target = q.copy()

    def step(self, push: Callable[[], None]) -> None:
        """Advance by 1 ms; ``push`` applies the forces of the hand."""
        plant, mj, data = self.plant, self.plant.mj, self.plant.data
        self._waiting.append(self._target)
        due = self._waiting.popleft()
        if self._phase == 0:
            self._from, self._to = self._line.copy(), due
        self._phase = (self._phase + 1) % CYCLE
        self._line = self._line + (self._to - self._from) / CYCLE
        wanted = ((self._line - self._reference) / SMOOTHING - 2.0 * self._rate) / SMOOTHING
        rate = self._rate = self._rate + PERIOD * wanted
        self._reference = self._reference + rate * PERIOD
        mujoco.mj_step1(mj, data)
        error = self._reference - data.qpos
        acceleration = wanted + SERVO**2 * error + 2.0 * SERVO * (rate - data.qvel)
        torque = np.empty(mj.nv)
        mujoco.mj_mulM(mj, data, torque, acceleration)
        torque += data.qfrc_bias + plant.friction(rate)
        data.qfrc_applied[:] = self.torque = torque
        plant.set_friction()
        push()
        q = self._encoders()
        self._v = self._v + self._weight * ((q - self._last) / PERIOD - self._v)
        self._last = q
        mujoco.mj_step2(mj, data)

    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return measured positions, velocities and torques, (nv,) each."""
        noise = self.plant.torque_noise * self._rng.standard_normal(self.torque.shape)
        measured = TORQUE_STEP * np.round((self.torque + noise) / TORQUE_STEP)
        return self._last.copy(), self._v.copy(), measured

    def _encoders(self) -> np.ndarray:
        q: np.ndarray = self._count * np.round(self.plant.data.qpos / self._count)
        return q


class LeadingHand:
    """A hand that grips the tool, leads it along an L and back, holds it, and lets go.

    Args:
        plant: the arm.
        hand: mass, stiffness and damping.
        legs: directions of the path in the world, (k, 3); each takes :data:`MOVE`.
        hold: time at the end of the path before the hand lets go [s]; 0: it lets go in motion.

    Attributes:
        force: of the hand on the tool, (3,) [N].
        velocity: of the tool, (3,) [m/s].
    """

    def __init__(self, plant: Plant, hand: Hand, legs: np.ndarray, hold: float) -> None:
        self._plant, self._hand, self._legs, self.hold = plant, hand, legs, hold
        placement = plant.arm.model.link_placement[plant.arm.model.link_names[-1]]
        self.point, self._row = placement[:3, 3], plant.mj.nv - 1
        self.force, self.velocity = np.zeros(3), np.zeros(3)
        self._p = self._target = np.zeros(3)
        self._u = np.zeros(3)
        self._is_there = False
        self.end = BEGIN + MOVE * len(legs) + hold

    def push(self, t: float) -> None:
        """Apply the force of the hand at the time ``t``."""
        plant = self._plant
        at = plant.place(self._row, self.point)
        velocity = plant.jacobian(self._row, self.point) @ plant.data.qvel
        force = self.step(t, at, velocity)
        body = plant.body[self._row]
        mujoco.mj_applyFT(
            plant.mj, plant.data, force, np.zeros(3), at, body, plant.data.qfrc_applied
        )

    def step(self, t: float, at: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """Advance the hand by a period; return its force on the tool with the kick, (3,) [N].

        Args:
            t: the time [s].
            at, velocity: of the tool, (3,) each [m, m/s].
        """
        self.velocity, self.force = velocity, np.zeros(3)
        if not BEGIN <= t < self.end:
            return self.force
        if not self._is_there:
            self._is_there, self._p, self._target = True, at.copy(), at.copy()
        leg = int((t - BEGIN) / MOVE)
        wanted = self._legs[leg] * SPEED if leg < len(self._legs) else np.zeros(3)
        self._target = self._target + wanted * PERIOD
        h = self._hand
        c = 2.0 * h.damping_ratio * np.sqrt(h.stiffness * h.mass)
        muscle = h.stiffness * (self._target - self._p) + c * (wanted - self._u)
        g = 2.0 * 0.5 * np.sqrt(GRIP * h.mass)
        self.force = GRIP * (self._p - at) + g * (self._u - self.velocity)
        self._u = self._u + PERIOD * (muscle - self.force) / h.mass
        self._p = self._p + PERIOD * self._u
        force = self.force
        if self.hold and 0.0 <= t - (self.end - self.hold) < KICK[1]:
            force = force + np.array([0.0, 0.0, KICK[0]])
        return force


@dataclass(frozen=True)
class Led:
    """What one hand felt."""

    arm: str
    hand: float
    """Natural frequency of the hand [Hz]."""
    stiffness: float
    damping_ratio: float
    force: float
    """Mean force along the path where the tool moves with at least 90 % of the speed [N]."""
    largest: float
    """Largest force [N]."""
    given: float
    """Most energy that the tool gave to the hand in any interval [J]."""
    vibration: float
    """Root mean square of the tool speed in the last second of the pause [m/s]."""
    standing: float
    """Time from letting go to standing [s]; NaN if the tool never stood."""
    path: float
    """Length that the tool travelled [m]."""
    reason: str
    """Reason of the stop."""


LEGS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, -0.7, -0.7]])
"""Directions of the path of the tool in the world."""


def lead(
    plant: Plant, model: Model, parameters: DetectorParameters, hand: Hand, seed: int, hold: float
) -> Led:
    """Lead the tool of a position-controlled arm, and return what the hand felt.

    With ``hold`` guiding does not end while the hand holds still, so that it may vibrate.
    """
    law = HandGuideParameters(tool_frame=TOOL, release_time=60.0 if hold else 0.5)
    run = Run(plant, model, parameters, seed, law)
    leading = LeadingHand(plant, hand, LEGS, hold)
    t, f, v = run.until(leading.end + 1.2, leading)
    return _felt(plant.arm.name, hand, leading, t, f, v, run.guide.reason)


SHOTS = (
    (1.2, "tare"),
    (3.2, "led sideways"),
    (5.2, "led upwards"),
    (7.2, "led back"),
    (9.0, "held"),
    (10.4, "let go"),
)
"""Times of the drawn postures [s], and what happens there."""
ARROW = 0.025
"""Length of the arrow of a force [m/N]."""


def draw(path: Path, seed: int, free: float) -> None:
    """Draw the arm at :data:`SHOTS` of a run, from the front, above force and speed over time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["font.size"] = 8
    plant = specimen(seed)
    model, parameters = calibrated(plant, seed + 10, free)
    run = Run(plant, model, parameters, seed + 20, HandGuideParameters(tool_frame=TOOL))
    leading = LeadingHand(plant, HANDS[1], LEGS, HOLD)
    row, point = plant.mj.nv - 1, model.link_placement[TOOL][:3, 3]
    postures: list[np.ndarray] = []

    def watch(_t: float) -> None:
        joints = [plant.data.xpos[plant.body[i]].copy() for i in range(plant.mj.nv)]
        postures.append(np.array([np.zeros(3), *joints, plant.place(row, point)]))

    t, f, v = run.until(leading.end + 1.2, leading, watch)
    every = np.array(postures)
    figure = Figure(figsize=(9.0, 5.0), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(3, len(SHOTS), height_ratios=[2.2, 1.0, 1.0])
    y, z = every[..., 1], every[..., 2]
    for k, (time, title) in enumerate(SHOTS):
        at = int(time / PERIOD)
        axes = figure.add_subplot(grid[0, k])
        axes.plot(y[CYCLE:at, -1], z[CYCLE:at, -1], color="C1", linewidth=1.0)
        axes.plot(y[at], z[at], "-o", color="C0", linewidth=3.0, markersize=3.0)
        push = ARROW * f[at, 1:]
        if np.linalg.norm(push) > 0.02:
            axes.annotate(
                "",
                (y[at, -1] + push[0], z[at, -1] + push[1]),
                (y[at, -1], z[at, -1]),
                arrowprops={"color": "C3", "width": 1.5, "headwidth": 6.0, "headlength": 5.0},
            )
        axes.set_title(f"{time:g} s: {title}", fontsize=8)
        axes.set_xlim(y.min() - 0.1, y.max() + 0.35)
        axes.set_ylim(-0.05, z.max() + 0.25)
        axes.set_aspect("equal")
        axes.set_axis_off()
    curves = (("force of the hand [N]", f, "C3"), ("speed of the tool [m/s]", v, "C1"))
    for place, (label, values, color) in enumerate(curves, 1):
        axes = figure.add_subplot(grid[place, :])
        axes.plot(t, np.linalg.norm(values, axis=1), color=color, linewidth=1.0)
        axes.set_ylabel(label)
        axes.set_xlim(0.0, t[-1])
        for time, _ in SHOTS:
            axes.axvline(time, color="0.8", linewidth=0.8)
    axes.set_xlabel("time [s]")
    figure.savefig(path, dpi=110)


class FloatingHand:
    """The same hand at an arm of :mod:`bench.robots`, which sees it as one of its pushes."""

    start, seconds = 0.0, np.inf

    def __init__(self, plant: TorquePlant, leading: LeadingHand) -> None:
        self._plant, self._leading = plant, leading
        self.row, self.point = plant.mj.nv - 1, leading.point
        self.rows: list[tuple[float, np.ndarray, np.ndarray]] = []

    def at(self, t: float) -> np.ndarray:
        """Return the force at a time, (3,) [N]."""
        plant, body, J = self._plant, self._plant.body[self.row], np.empty((3, self._plant.mj.nv))
        at = plant.data.xpos[body] + plant.data.xmat[body].reshape(3, 3) @ self.point
        mujoco.mj_jac(plant.mj, plant.data, J, None, at, body)
        force = self._leading.step(t, at, J @ plant.state.v)
        self.rows.append((t, self._leading.force, self._leading.velocity))
        return force


def lead_in_torques(hand: Hand, seed: int, hold: float) -> Led:
    """Lead a Panda that takes torques and floats, its friction known to :data:`FRICTION_ERROR`."""
    plant = TorquePlant(ROBOTS["panda"], seed)
    error = 1.0 + FRICTION_ERROR * np.random.default_rng(seed).uniform(-1.0, 1.0, plant.mj.nv)
    parameters = replace(
        plant.robot.parameters(),
        friction_model="coulomb_viscous",
        friction_coulomb=tuple(error * plant.joints.coulomb),
        friction_viscous=tuple(error * plant.joints.viscous),
        contact_reaction="none",
    )
    session = Session(plant, parameters)
    leading = LeadingHand(plant, hand, LEGS, hold)  # type: ignore[arg-type]
    floating = FloatingHand(plant, leading)
    session.run(0.5)
    session.order("float")
    begin = plant.t
    floating.start = begin
    plant.pushes.append(floating)  # type: ignore[arg-type]
    session.run(leading.end + 1.2)
    t, f, v = (np.array(column) for column in zip(*floating.rows, strict=True))
    reason = session.fault.reason if session.fault else session.controller.mode
    return _felt("panda", hand, leading, t, f, v, reason)


@dataclass(frozen=True)
class Collision:
    """A wall in the way of the elbow while a hand leads the tool; times from the touch [s]."""

    hand: float
    """Natural frequency of the hand [Hz]."""
    begin: float
    """When the law began to stop; NaN if it did not."""
    standing: float
    """When the elbow stood."""
    force: float
    """Largest force on the wall while guiding was in force, until 0.5 s after it [N]."""
    reason: str


def collide(
    plant: Plant, model: Model, parameters: DetectorParameters, hand: Hand, seed: int, gap: float
) -> Collision:
    """Lead the tool so that the elbow runs into a wall after ``gap`` [m]."""
    run = Run(plant, model, parameters, seed)
    leading = LeadingHand(plant, hand, LEGS[:1], HOLD)
    row, point = 2, np.zeros(3)
    mujoco.mj_forward(plant.mj, plant.data)
    at = plant.place(row, point)
    wall = at + np.array([0.0, gap + TIP + OBSTACLE, 0.0])
    plant.place_obstacle(row, point, wall, np.array([0.0, -1.0, 0.0]))
    times, forces, speeds, states = [], [], [], []

    def note(t: float) -> None:
        times.append(t)
        forces.append(float(np.linalg.norm(plant.contact_forces().sum(axis=0))))
        speeds.append(float(np.linalg.norm(plant.jacobian(row, point) @ plant.data.qvel)))
        states.append(run.guide.state)

    run.until(leading.end, leading, note)
    plant.remove_obstacle()
    t, f, v = np.array(times), np.array(forces), np.array(speeds)
    touched = t[np.flatnonzero(f > 0.0)[0]] if f.any() else np.nan
    ended = t[np.flatnonzero((t > touched) & ([state != "led" for state in states]))]
    moving = t[(t > touched) & (v > REST) & (t < touched + 1.0)]
    begin = ended[0] if ended.size else np.nan
    return Collision(
        hand.frequency,
        float(begin - touched),
        float(moving[-1] - touched) if moving.size else 0.0,
        float(f[t < np.nan_to_num(begin, nan=np.inf) + 0.5].max()),
        run.guide.reason,
    )


def _felt(
    name: str,
    hand: Hand,
    leading: LeadingHand,
    t: np.ndarray,
    f: np.ndarray,
    v: np.ndarray,
    reason: str,
) -> Led:
    """Return the figures of one run from times, forces (k, 3) and tool velocities (k, 3)."""
    speed = np.linalg.norm(v, axis=1)
    moves = (t > BEGIN + 0.3 * MOVE) & (t < leading.end - leading.hold) & (speed > 0.9 * SPEED)
    along = np.abs((f * v).sum(axis=1)) / np.maximum(speed, 1e-6)
    given = -np.cumsum((f * v).sum(axis=1)) * PERIOD
    calm = (t > leading.end - 1.0) & (t < leading.end)
    after = np.flatnonzero((t >= leading.end) & (speed > REST))
    last = t[after[-1]] - leading.end if after.size else 0.0
    return Led(
        name,
        hand.frequency,
        hand.stiffness,
        hand.damping_ratio,
        float(along[moves].mean()) if moves.any() else np.nan,
        float(np.linalg.norm(f, axis=1).max()),
        float((given - np.minimum.accumulate(given)).max()),
        float(np.sqrt((speed[calm] ** 2).mean())),
        float(last) if last < 1.1 else np.nan,
        float(speed.sum() * PERIOD),
        reason,
    )


class Run:
    """A servo arm, its detector and the law, in one loop at 125 Hz.

    Attributes:
        guide: the law.
        log: state changes of the law, with their times.
    """

    def __init__(
        self,
        plant: Plant,
        model: Model,
        parameters: DetectorParameters,
        seed: int,
        law: HandGuideParameters | None = None,
    ) -> None:
        self.arm = ServoArm(plant, plant.arm.centre, seed)
        friction = parameters.for_joints("friction_coulomb", model.nv)
        self.guide = HandGuide(
            model, law or HandGuideParameters(tool_frame=TOOL), friction=friction
        )
        self._detector = ContactDetector(model, replace(parameters, tool_frame=TOOL))
        self.log: list[tuple[float, str, str]] = []
        self.guide.start()
        self.links: list[tuple[float, str, str]] = []
        self.levels: list[tuple[float, float]] = []

    def until(
        self, end: float, hand: LeadingHand, each: Callable[[float], None] = lambda _t: None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run to the time ``end``; return times, forces and velocities of the tool."""
        times, forces, velocities = [], [], []
        for k in range(round(end / PERIOD)):
            t = k * PERIOD
            if k % CYCLE == 0:
                self._cycle(t)
            each(t)
            self.arm.step(lambda t=t: hand.push(t))  # type: ignore[misc]
            times.append(t)
            forces.append(hand.force)
            velocities.append(hand.velocity)
        return np.array(times), np.array(forces), np.array(velocities)

    def _cycle(self, t: float) -> None:
        guide, (q, v, tau) = self.guide, self.arm.sample()
        found = self._detector.update(t, q, v, tau)
        guide.update_joints(t, q, v, t)
        if found.valid:
            guide.update_verdict(found.contact, t)
            guide.update_level(found.level, found.link, t)
        wrench = self._detector.tool_wrench()
        if wrench is not None:
            guide.update_wrench(t, wrench.frame, wrench.wrench, wrench.covariance, t)
        command: Command | None = guide.step(t)
        if command is not None:
            self.arm.command(command.q)
        if not self.log or self.log[-1][1:] != (guide.state, guide.reason):
            self.log.append((t, guide.state, guide.reason))
        if found.contact and (not self.links or self.links[-1][1:] != (found.link, found.level)):
            self.links.append((t, found.link, found.level))
        self.levels.append((t, guide.tank.level))


def specimen(seed: int) -> Plant:
    """Return an arm with the rotors of its drives."""
    plant = Plant(arm("ur10"), seed)
    plant.mj.dof_armature[:] += ROTORS
    return plant


def calibrated(plant: Plant, seed: int, duration: float) -> tuple[Model, DetectorParameters]:
    """Return corrected model and detector parameters, calibrated on free motion at 125 Hz."""
    model = plant.arm.model
    path = PickAndPlace(model, plant.arm.centre, seed, duration / 2)
    motions = []
    for motion in (None, path):
        for part in stream(plant, seed, duration / 2, (), motion):
            t, q, v, tau = (x[::CYCLE] for x in (part.t, part.q, part.v, part.tau))
            tau = TORQUE_STEP * np.round(tau / TORQUE_STEP)
            motions.append(RecordedMotion(plant.arm.name, t, q, v, tau))
    found = calibrate(motions, model).parameters
    return found.corrected(model), found


def main(arguments: Sequence[str]) -> None:
    """Run all hands, print the tables and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.hand_guide", description=__doc__)
    parser.add_argument("--specimens", type=int, default=2, metavar="N", help="arms (2)")
    parser.add_argument("--free", type=float, default=60.0, metavar="S", help="to calibrate (60)")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw one run only")
    given = parser.parse_args(arguments)
    if given.picture:
        draw(given.picture, 1, given.free)
        return
    kinds = ("held", "let go", "elbow", "held, Panda in torques", "let go, Panda in torques")
    found: dict[str, list[dict[str, object]]] = {kind: [] for kind in kinds}
    for seed in range(1, given.specimens + 1):
        plant = specimen(seed)
        model, parameters = calibrated(plant, seed + 10, given.free)
        for k, hand in enumerate(HANDS):
            for what, hold in (("held", HOLD), ("let go", 0.0)):
                led = lead(plant, model, parameters, hand, seed + 20 + k, hold)
                found[what].append(asdict(led))
                floats = lead_in_torques(hand, seed, hold)
                found[f"{what}, Panda in torques"].append(asdict(floats))
            hit = collide(plant, model, parameters, hand, seed + 40 + k, 0.03)
            found["elbow"].append(asdict(hit))
    console = Console(width=150, highlight=False)
    for what, rows in found.items():
        table = Table(*rows[0], title=what)
        for row in rows:
            table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()))
        console.print(table)
    given.report.mkdir(parents=True, exist_ok=True)
    (given.report / "hand_guide.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
