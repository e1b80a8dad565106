"""Design of the motion: random loops, of which the best is refined step by step.

Each candidate is scaled, joint by joint, until one of its limits is reached, and then as a whole
until the torques keep their limits and the arm stays in its space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import gravity_torque, inverse_dynamics, mass_matrix
from rbd_control.errors import InputError
from rbd_control.excitation.motion import Motion, Rounds
from rbd_control.excitation.observability import NOISE, PERIOD, Limits, Observability
from rbd_control.excitation.space import Space, space_of
from rbd_control.robot import Robot

Array = NDArray[np.float64]

QUICK = Rounds((1.0, -1.0, 0.5), 30.0)
"""Rounds of a motion of half a minute."""
FULL = Rounds((1.0, -1.0, 0.5, -0.5, 0.25), 180.0)
"""Rounds of a motion of three minutes."""
SHARE = 0.8
"""Default share of the limits of velocity and acceleration that a motion uses."""
FOR_FRICTION = 0.2
"""Share of the effort limit that is left for friction and for the controller."""
MARGIN = 0.1
"""Distance to the position limits, or a twentieth of the range if that is less [rad or m]."""
REACH = 1.6
"""Largest distance from the start pose of a joint [rad or m]."""
SPEED_UP = 0.3
"""Shortest time from rest to the velocity limit of the default acceleration limit [s].

The lowest acceleration limit of libfranka for the Panda, 7.5 rad/s² at 2.175 rad/s, is 0.29 s.
"""
EFFORT_FOR_ACCELERATION = 0.5
"""Share of the effort limit from which the default acceleration limit is computed."""
POSTURES = 200
"""Number of random postures for limits and for the choice of a start pose."""
ROOM = 0.1
"""Clearance of a start pose from which more is no advantage [m]."""
CHECKED = 0.05
"""Period of the samples of a loop at which torques and space are checked [s]."""
SHRINK = 0.85
"""Factor of each step by which a candidate is made smaller until it is feasible."""
SHRINKS = 16
"""Number of such steps after which a candidate is given up."""
BATCH = 8
"""Number of candidates that are evaluated together."""
LEAST = 0.1
"""Smallest amplitude of a joint for which a motion is worth making [rad or m]."""
REFERENCES = 8
"""Number of random motions in the whole range of the joints to which the measure refers."""


@dataclass(frozen=True)
class Request:
    """What is wanted of a motion; the command line has the same options.

    Attributes:
        rounds: the rounds.
        start: pose at the start by joint [rad or m]; the middle of the range for other joints.
        box: x, x, y, y, z, z of the corners of the box, in the frame of the base [m]; or None.
        floor: height of the floor [m]; None for that of the base, if the arm stands on it.
        share: share of the limits of velocity and acceleration.
        acceleration: acceleration limit of each joint or of all [rad/s² or m/s²]; empty for the
            default.
        noise: standard deviation of a filtered row of each joint or of all [N·m or N]; empty for
            the default.
        seed: seed of the random candidates.
        candidates: number of random candidates.
        steps: number of candidates by which the best is refined.
    """

    rounds: Rounds = QUICK
    start: dict[str, float] | None = None
    box: tuple[float, ...] | None = None
    floor: float | None = None
    share: float = SHARE
    acceleration: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    seed: int = 0
    candidates: int = 320
    steps: int = 1200


@dataclass(frozen=True, eq=False)
class Design:
    """A designed motion, and what it will determine."""

    motion: Motion
    limits: Limits
    """The full limits of the arm."""
    allowed: Limits
    """The limits that the motion keeps."""
    space: Space
    observability: Observability
    information: Array
    """Information of the whole motion, without priors."""
    measure: float
    """Expected torque error on independent motions, relative to the noise."""

    @property
    def errors(self) -> Array:
        """Standard error of each unknown."""
        return self.observability.errors(self.information)


class Designer:
    """Designs the motion of one arm.

    Args:
        robot: the arm.
        request: what is wanted.

    Raises:
        InputError: naming the joint, the value, the limit and the remedy, if the request cannot be
            met.
    """

    def __init__(self, robot: Robot, request: Request) -> None:
        self.model, self.request = robot.model, request
        model = self.model
        if model.floating_base:
            raise InputError("the base of the arm floats; excite needs an arm on a fixed base")
        self.limits = limits_of(robot, request.acceleration)
        low, high = self._range()
        self.space = space_of(robot, request.box, request.floor, low, high)
        self.start = self._start(low, high)
        self.allowed = Limits(
            np.maximum(low, self.start - REACH),
            np.minimum(high, self.start + REACH),
            request.share * self.limits.velocity,
            request.share * self.limits.acceleration,
            (1.0 - FOR_FRICTION) * self.limits.effort,
        )
        self._refuse_start()
        noise = request.noise or (NOISE,) * model.nv
        if len(noise) not in (1, model.nv):
            raise InputError(f"--noise has {len(noise)} values; give one, or {model.nv}")
        scale = np.ones(model.nv) if request.noise else self.limits.effort
        self.observability = Observability(model, self.limits, np.array(noise) * scale)
        self._checked = request.rounds.basis(request.rounds.loop_times(CHECKED))
        self._sampled = request.rounds.sampled(PERIOD)[1]
        self._refer(low, high)

    def _range(self) -> tuple[Array, Array]:
        """Return the range of the joints with its margin; ±pi for a joint without limits."""
        lower, upper = self.limits.lower, self.limits.upper
        margin = np.minimum(MARGIN, 0.05 * (upper - lower))
        low, high = lower + margin, upper - margin
        return low, high

    def _start(self, low: Array, high: Array) -> Array:
        """Return the start pose: as wanted, else the middle, else a posture with clearance."""
        model, wanted = self.model, dict(self.request.start or {})
        for name, value in wanted.items():
            i = model.joint_index(name)
            if not low[i] <= value <= high[i]:
                raise InputError(
                    f"--start: {name} is at {value:g}; the range with its margin is "
                    f"{low[i]:.4g} to {high[i]:.4g}: give a position inside"
                )
        middle = 0.5 * (low + high)
        given = [model.joint_index(name) for name in wanted]
        middle[given] = list(wanted.values())
        if len(given) == model.nv:
            return middle
        random = np.random.default_rng(self.request.seed)
        width = np.minimum(0.35 * (high - low), REACH)
        postures = middle + random.uniform(-1.0, 1.0, (2 * POSTURES, model.nv)) * width
        postures = np.vstack([middle, postures])
        postures[:, given] = middle[given]
        free = np.minimum(self.space.clearance(postures, low_links=False), ROOM)
        free[self.space.clearance(postures) < 0.0] -= ROOM
        weight = np.abs(gravity_torque(model, postures)) / self.limits.effort
        free[weight.max(axis=1) > 0.7 * (1.0 - FOR_FRICTION)] = -np.inf
        # Near the middle, but not where the arm is stretched and its joints have the same axis.
        spread = np.linalg.norm((postures - middle) / np.maximum(high - low, 1e-9), axis=1)
        return np.asarray(postures[int(np.argmax(free - 0.05 * spread))])

    def _refuse_start(self) -> None:
        """Raise an error if the arm cannot stand in the start pose."""
        at = self.start[None]
        clear = float(self.space.clearance(at)[0])
        if clear < 0.0:
            raise InputError(
                f"the start pose is {-clear:.3f} m outside the box, below the floor or too close "
                "to the arm itself; give another pose by --start, a larger --box or a lower "
                f"--floor. The pose is {_pose(self.model.joint_names, self.start)}"
            )
        weight = np.abs(gravity_torque(self.model, at)[0])
        worst = int(np.argmax(weight / self.allowed.effort))
        if weight[worst] > self.allowed.effort[worst]:
            raise InputError(
                f"gravity needs {weight[worst]:.3g} {self.model.torque_unit(worst)} of "
                f"{self.model.joint_names[worst]} in the start pose, of the "
                f"{self.allowed.effort[worst]:.3g} that are allowed; give another pose by --start"
            )

    def _refer(self, low: Array, high: Array) -> None:
        """Let the measure refer to random motions in the whole range, at two speeds."""
        rounds = Rounds((1.0, 0.3), 40.0)
        random = np.random.default_rng(12345)
        basis = rounds.basis(rounds.loop_times(CHECKED))
        sampled = rounds.sampled(PERIOD)[1]
        infos, rows = [], []
        for _ in range(REFERENCES):
            start = random.uniform(low, high)
            allowed = Limits(
                low, high, self.allowed.velocity, self.allowed.acceleration, self.allowed.effort
            )
            D = random.standard_normal((1, rounds.free, self.model.nv))
            D = _scaled(D, basis, start, allowed)
            q, v, a = sampled @ D[0]
            info, count = self.observability.informations((start + q)[None], v[None], a[None])
            infos.append(info[0])
            rows.append(count[0])
        self.observability.refer_to(np.array(infos), np.array(rows))

    def feasible(self, D: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return candidates made feasible, (c, free, n), and whether that succeeded, (c,)."""
        D = _scaled(D, self._checked, self.start, self.allowed)
        ok = np.zeros(len(D), dtype=np.bool_)
        for _ in range(SHRINKS):
            todo = np.flatnonzero(~ok)
            if not todo.size:
                break
            q, v, a = (self._checked[:, None] @ D[todo]).reshape(3, todo.size, -1, self.start.size)
            ok[todo] = self._is_feasible(self.start + q, v, a)
            D[~ok] *= SHRINK
        return D, ok

    def _is_feasible(self, q: Array, v: Array, a: Array) -> NDArray[np.bool_]:
        """Return whether torques and space are kept, (c,), for motions (c, k, n)."""
        c, k, n = q.shape
        flat = np.stack([q, v, a]).reshape(3, -1, n)
        tau = np.abs(inverse_dynamics(self.model, flat[0], flat[1], flat[2]))
        good = (tau <= self.allowed.effort).all(axis=1)
        clear = self.space.clearance(q.reshape(-1, n)) >= 0.0
        return np.asarray((good & clear).reshape(c, k).all(axis=1))

    def measures(self, D: Array) -> tuple[Array, Array]:
        """Return the measure of candidates (c, free, n), (c,), and their information."""
        q, v, a = self._sampled[:, None] @ D
        infos, _ = self.observability.informations(self.start + q, v, a)
        return np.array([self.observability.measure(info) for info in infos]), infos

    def random(self, generator: np.random.Generator, count: int) -> Array:
        """Return random candidates, not yet feasible, (count, free, n)."""
        return generator.standard_normal((count, self.request.rounds.free, self.start.size))

    def run(self, progress: Callable[[int, float], None] = lambda *_: None) -> Design:
        """Return the designed motion.

        Args:
            progress: called with the number of candidates so far and the best measure.

        Raises:
            InputError: if no random candidate is feasible with a useful amplitude.
        """
        generator = np.random.default_rng(self.request.seed)
        best, least = None, np.inf
        done = 0
        for _ in range(-(-self.request.candidates // BATCH)):
            D, ok = self.feasible(self.random(generator, BATCH))
            done += BATCH
            if ok.any():
                values, _ = self.measures(D[ok])
                k = int(np.argmin(values))
                if values[k] < least:
                    least, best = float(values[k]), D[ok][k]
            progress(done, least)
        if best is None:
            raise InputError(
                "no feasible motion was found from the start pose "
                f"({_pose(self.model.joint_names, self.start)}); give another pose by --start, a "
                "larger --box or a lower --floor"
            )
        best, least = self._refined(best, least, generator, progress)
        self._refuse_small(best)
        infos = self.measures(best[None])[1]
        motion = Motion(self.model.joint_names, self.start, self.request.rounds, best)
        return Design(
            motion, self.limits, self.allowed, self.space, self.observability, infos[0], least
        )

    def _refined(
        self,
        best: Array,
        least: float,
        generator: np.random.Generator,
        progress: Callable[[int, float], None],
    ) -> tuple[Array, float]:
        """Return a candidate improved by random changes, whose size follows their success."""
        free, n = best.shape
        size = 0.5
        for batch in range(-(-self.request.steps // BATCH)):
            spread = best.std(axis=0) + 1e-3
            change = generator.standard_normal((BATCH, free, n)) * spread * size
            change *= generator.random((BATCH, free, n)) < generator.choice([0.1, 0.3, 1.0])
            D, ok = self.feasible(best + change)
            improved = False
            if ok.any():
                values, _ = self.measures(D[ok])
                k = int(np.argmin(values))
                if values[k] < least:
                    least, best, improved = float(values[k]), D[ok][k], True
            size = float(np.clip(size * (1.3 if improved else 0.93), 0.02, 1.0))
            progress(self.request.candidates + (batch + 1) * BATCH, least)
        return best, least

    def _refuse_small(self, best: Array) -> None:
        q = self._checked[0] @ best
        reach = np.ptp(q, axis=0)
        worst = int(np.argmin(reach))
        if reach[worst] < LEAST:
            raise InputError(
                f"{self.model.joint_names[worst]} could move by {reach[worst]:.3f} only, and "
                f"{LEAST:g} {self.model.position_unit(worst)} are needed; give another pose by "
                "--start, a larger --box or a lower --floor"
            )


def limits_of(robot: Robot, acceleration: tuple[float, ...] = ()) -> Limits:
    """Return the full limits of an arm.

    A continuous joint gets a range of one turn about zero. The default acceleration limit is the
    least of two: the velocity limit after :data:`SPEED_UP`, and the acceleration for which a joint
    alone needs :data:`EFFORT_FOR_ACCELERATION` of its effort limit in most postures.

    Raises:
        InputError: for a joint without limit of velocity or effort, or a wrong number of
            accelerations.
    """
    model = robot.model
    for name, what, unit, values in (
        ("velocity", "speed", "", model.velocity_limit),
        ("effort", "torque", "", model.effort_limit),
    ):
        missing = [j for j, x in zip(model.joint_names, values, strict=True) if not np.isfinite(x)]
        if missing:
            raise InputError(
                f"joint {missing[0]!r} has no {name} limit, so that no {what} is known to be safe; "
                f'write <limit {name}="..."/> into the URDF{unit}'
            )
    lower = np.where(np.isfinite(model.lower_limit), model.lower_limit, -np.pi)
    upper = np.where(np.isfinite(model.upper_limit), model.upper_limit, np.pi)
    if acceleration:
        if len(acceleration) not in (1, model.nv):
            raise InputError(
                f"--acceleration has {len(acceleration)} values; give one, or {model.nv}, one for "
                "each joint"
            )
        most = np.full(model.nv, 1.0) * np.array(acceleration)
        if not (most > 0.0).all():
            raise InputError(f"--acceleration is {most.min():g}; give limits above 0")
    else:
        random = np.random.default_rng(0)
        q = random.uniform(lower, upper, (POSTURES, model.nv))
        diagonal = np.diagonal(mass_matrix(model, q), axis1=1, axis2=2)
        inertia = np.quantile(diagonal, 0.8, axis=0)
        by_effort = EFFORT_FOR_ACCELERATION * model.effort_limit / np.maximum(inertia, 1e-9)
        most = np.minimum(by_effort, model.velocity_limit / SPEED_UP)
    return Limits(lower, upper, model.velocity_limit.copy(), most, model.effort_limit.copy())


def _scaled(D: Array, basis: Array, start: Array, allowed: Limits) -> Array:
    """Return candidates (c, free, n) scaled so that each joint reaches one of its limits."""
    q, v, a = basis[:, None] @ D
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            q.max(axis=1) / np.maximum(allowed.upper - start, 1e-9),
            -q.min(axis=1) / np.maximum(start - allowed.lower, 1e-9),
            np.abs(v).max(axis=1) / allowed.velocity,
            np.abs(a).max(axis=1) / allowed.acceleration,
        ]
    most = np.maximum(np.max(ratios, axis=0), 1e-9)
    return np.asarray(D / most[:, None])


def _pose(joints: tuple[str, ...], q: Array) -> str:
    return ", ".join(f"{name} {x:.2f}" for name, x in zip(joints, q, strict=True))
