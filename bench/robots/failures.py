"""Failures of drives, sensors, model and communication, and what the controller makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nan, radians

import numpy as np
from numpy.typing import NDArray

from bench.robots.energy import EnergyAfterFault, Reading, is_zero
from bench.robots.motion import Reference
from bench.robots.plant import Plant
from bench.robots.robots import Robot
from bench.robots.session import Script, Session

Array = NDArray[np.float64]
Inject = Callable[[Session, np.random.Generator], None]

HALF_SPEED = 0.5
"""Share of the velocity limits of the trajectories."""
STILL = 0.02
"""Speed of every joint below which the arm stands still [rad/s]."""
AFTER = 3.0
"""Time for which an arm is watched after a fault [s]."""
BEFORE = "before"
"""State of an arm that has had a fault before the failure."""
SECONDS = 6.0
"""Length of a run without a fault [s]."""


@dataclass(frozen=True)
class Failure:
    """A failure that is put into a running session."""

    name: str
    inject: Inject
    expected: bool | None
    """Whether a fault must come; None: both are right, if the arm stays within its limits."""
    at: tuple[str, ...] = ("motion", "rest")
    """When the failure begins: in motion, at rest, or before the start."""


@dataclass(frozen=True)
class Outcome:
    """What happened after a failure."""

    robot: str
    failure: str
    at: str
    expected: bool | None
    after: float
    """Time from the failure to the fault [s]; NaN without a fault."""
    reason: str
    excess: float = nan
    """Largest energy beyond the permitted energy, see :mod:`bench.robots.energy` [J]."""
    energy: float = nan
    """Energy of motion at the fault [J]."""
    speed: float = nan
    """Largest speed of a joint after the fault as a multiple of the larger of its speed at the
    fault and its velocity limit; without a fault, of its limit after the failure."""
    stop: float = nan
    """Time from the fault to standstill [s]; infinite if the arm did not stop."""
    way: float = nan
    """Largest motion of a joint from the fault on [rad]."""
    ends: str = ""
    """State of the arm at the end."""
    is_zero: bool = False
    """Whether the last command is zero."""
    sunk: float = 0.0
    """Largest work of gravity that nothing balanced [J]."""


@dataclass
class _Watch:
    """Watches the true state from the failure, or from the fault on."""

    limit: Array
    speeds: list[Array] = field(default_factory=list)
    places: list[Array] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    is_zero: list[bool] = field(default_factory=list)
    account: EnergyAfterFault | None = None

    def __call__(self, session: Session) -> None:
        plant = session.plant
        if session.fault is not None and self.account is None:
            self.account = EnergyAfterFault(Reading.of(plant))
            for each in (self.speeds, self.places, self.times, self.is_zero):
                each.clear()
        elif session.fault is not None and self.account is not None:
            self.account.add(
                Reading.of(plant),
                plant.robot.period,
                has_arrived=plant.has_arrived(session.fault.t),
            )
        self.speeds.append(np.abs(plant.state.v))
        self.places.append(plant.state.q.copy())
        self.times.append(plant.t)
        self.is_zero.append(is_zero(session.command.torque))


def fail(robot: Robot, failure: Failure, at: str, seed: int = 0) -> Outcome:
    """Run one failure on a fresh session.

    Args:
        robot: the robot.
        failure: the failure.
        at: ``motion``, ``rest`` or ``start``.
        seed: seed of specimen and motion.
    """
    plant = Plant(robot, seed)
    rng = np.random.default_rng(2000 + seed)
    motion = Reference.random(plant, rng, SECONDS, HALF_SPEED)
    session = Session(plant)
    watch = _Watch(plant.arm.model.velocity_limit)
    if at == "start":
        failure.inject(session, rng)
        session.watch = watch
    elif at == "motion":
        session.follow(motion.sampled())
    if at != "start":
        session.run(0.5 * motion.times[1] if at == "motion" else 0.5)
        if session.fault is not None:
            return Outcome(
                robot.name, failure.name, at, failure.expected, nan, session.fault.reason,
                ends=BEFORE,
            )  # fmt: skip
        session.watch = watch
        failure.inject(session, rng)
    onset = plant.t
    session.run(SECONDS - onset, _start_late(session, motion) if at == "start" else None)
    if session.fault is not None:
        plant.pushes.clear()
        session.run(AFTER, past_fault=True)
    return _outcome(robot, failure, at, onset, session, watch)


def _start_late(session: Session, motion: Reference) -> Script:
    yield 0.3
    session.follow(motion.sampled())


def _outcome(
    robot: Robot, failure: Failure, at: str, onset: float, session: Session, watch: _Watch
) -> Outcome:
    """Return the figures of a run."""
    speeds, places = np.array(watch.speeds), np.array(watch.places)
    stop = standstill(np.array(watch.times), speeds)
    if session.fault is None or watch.account is None:
        ratio = float((speeds / watch.limit).max())
        return Outcome(
            robot.name, failure.name, at, failure.expected, nan, "",
            speed=ratio, ends="moves" if stop == inf else "stands",
        )  # fmt: skip
    allowed = np.maximum(speeds[0], watch.limit)
    is_zero_now = watch.is_zero[-1]
    ends = "stands" if stop < inf else _moving(session, is_zero_now)
    return Outcome(
        robot.name,
        failure.name,
        at,
        failure.expected,
        session.fault.t - onset,
        session.fault.reason,
        watch.account.excess,
        watch.account.start.motion,
        float((speeds / allowed).max()),
        stop,
        float(np.abs(places - places[0]).max()),
        ends,
        is_zero_now,
        watch.account.sunk,
    )


def _moving(session: Session, is_zero_now: bool) -> str:
    if not is_zero_now:
        return "moves"
    return "floats" if session.plant.robot.compensates_gravity else "falls"


def standstill(times: Array, speeds: Array) -> float:
    """Return the time from the first row on after which every joint stays still [s].

    Args:
        times: (k,) [s].
        speeds: (k, nv) without signs [rad/s].
    """
    moving = np.flatnonzero((speeds > STILL).any(axis=1))
    if moving.size == 0:
        return 0.0
    last = int(moving[-1]) + 1
    return inf if last >= len(times) else float(times[last] - times[0])


# --- The failures --------------------------------------------------------------------------------


def failures(n: int) -> list[Failure]:
    """Return the failures of the study for an arm with ``n`` joints."""
    found = [Failure(f"joint {i + 1} reversed", _gain(i, -1.0), True, ("start",)) for i in range(n)]
    shoulder, elbow, wrist = 1, 3 if n > 6 else 2, n - 2
    # Friction may hold a dead wrist, and the motion may end within its tracking_limit. So may the
    # motion of a joint whose brake is closed.
    found += [
        Failure(f"joint {shoulder + 1} dead", _dead(shoulder), True),
        Failure(f"joint {wrist + 1} dead", _dead(wrist), None, ("motion",)),
    ]
    found += [
        Failure(f"wires {i + 1}, {i + 2} swapped", _swapped(i), True, ("start",))
        for i in (shoulder, wrist)
    ]
    found += [
        Failure(f"joint {i + 1} locked", _locked(i), None, ("motion",)) for i in (shoulder, wrist)
    ]
    found += [
        Failure("encoder + 5 mrad", _offset(elbow, 0.005), False),
        Failure("encoder + 1 rad", _offset(elbow, 1.0), True),
        Failure("gravity tilted 15°", _tilted, None),
        Failure("two publishers", _two_publishers, True),
        Failure("1 % lost", _lossy(0.01), False, ("motion",)),
        Failure("20 % lost", _lossy(0.2), None, ("motion",)),
        Failure("cable pulled", _lossy(1.0), True),
    ]
    found += [
        Failure(f"commands + {ms} ms", _late_commands(ms), False if ms <= 3 else None)
        for ms in (3, 5, 10, 15)
    ]
    found += [
        Failure("velocity + 7 ms", _late_velocity, None),
        Failure("velocity reversed", _wrong_sign, True, ("motion",)),
        Failure("shove, overspeed", _shove, True),
        Failure("tracking limit", _tracking, True, ("motion",)),
    ]
    return found


def _gain(i: int, gain: float) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.plant.failures.gain[i] = gain

    return inject


def _dead(i: int) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.plant.failures.motor[i] = 0.0

    return inject


def _swapped(i: int) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        wires = session.plant.failures.wires
        wires[[i, i + 1]] = wires[[i + 1, i]]

    return inject


def _locked(i: int) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.plant.failures.locked[i] = True

    return inject


def _offset(i: int, offset: float) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.plant.failures.offset[i] = offset

    return inject


def _tilted(session: Session, rng: np.random.Generator) -> None:
    angle, gravity = radians(15.0), session.plant.gravity
    turned = np.array([gravity[2] * np.sin(angle), 0.0, gravity[2] * np.cos(angle)])
    session.plant.mj.opt.gravity[:] = turned


def _two_publishers(session: Session, rng: np.random.Generator) -> None:
    centre = session.plant.arm.centre
    session.second = (centre + rng.uniform(-0.3, 0.3, centre.size), np.zeros(centre.size))


def _lossy(share: float) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.lose = lambda t: bool(rng.random() < share)

    return inject


def _late_commands(ms: int) -> Inject:
    def inject(session: Session, rng: np.random.Generator) -> None:
        session.plant.failures.command_delay = 0.001 * ms

    return inject


def _late_velocity(session: Session, rng: np.random.Generator) -> None:
    session.plant.failures.velocity_delay = 0.007


def _wrong_sign(session: Session, rng: np.random.Generator) -> None:
    session.plant.failures.velocity_factor = -1.0


def _shove(session: Session, rng: np.random.Generator) -> None:
    """Shove the hand along its motion with a force that grows with the arm."""
    force = SHOVE * session.plant.arm.model.effort_limit[1]
    row = session.plant.arm.model.nv - 2
    direction = np.array([0.3, 1.0, -0.2])
    session.push(row, force * direction, 1.5, is_held=True)


def _tracking(session: Session, rng: np.random.Generator) -> None:
    session.provoke_tracking_fault()


SHOVE = 4.0
"""Force of the shove as a multiple of the shoulder's effort limit [1/m]: 350 N on a Panda."""
