"""Strategies of the state machines: arms, parameters, trajectories, wrong joint states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from rbd_control.control import ControllerParameters, TrajectoryPoint
from rbd_control.control.gains import Loop
from rbd_control.robot.friction import MODELS
from stateful.arms import JOINTS, make_arm
from stateful.rig import Rig
from stateful.setup import Elastic, Setup

Array = NDArray[np.float64]

MOST_JOINTS = max(map(len, JOINTS.values()))


def numbers(low: float, high: float) -> SearchStrategy[float]:
    """Return a number from an interval, one of 101 that read well."""
    return st.integers(0, 100).map(lambda k: round(low + (high - low) * k / 100.0, 12))


def each(low: float, high: float) -> SearchStrategy[tuple[float, ...]]:
    """Return a per-joint parameter: one number for all joints."""
    return numbers(low, high).map(lambda x: (x,))


GAINS: dict[str, SearchStrategy[Any]] = {
    # What is stable on these arms at 200 Hz; at 1 kHz more would be, but differs in nothing.
    "bandwidth": each(4.0, 25.0) | st.just((0.0,)),
    "damping_rate": numbers(10.0, 50.0),
    "damping": each(0.05, 0.3) | st.just((0.0,)),
    "resonance": st.sampled_from([0.0, 20.0, 30.0, 100.0]),
    "loop_delay": numbers(0.0, 0.02),
    "bias_rate": numbers(0.0, 5.0),
    "limit_approach": numbers(1.0, 20.0),
    "torque_share": each(0.3, 1.0),
    "torque_rate": each(1000.0, 1e6),
    "stop_time": numbers(0.02, 0.4),
    "timeout": numbers(0.02, 0.2),
    "bad_samples": st.integers(1, 20),
    "implausible_speed": numbers(4.1, 20.0),
    "implausible_jump": numbers(0.005, 0.1),
    "retract_distance": numbers(0.01, 0.2),
    "retract_time": numbers(0.1, 1.0),
    "limit_margin": each(0.0, 0.2),
    "path_tolerance": st.sampled_from([(0.0,), (0.02,), (0.5,)]),
    "goal_tolerance": each(0.001, 0.5),
    "stopped_velocity_tolerance": numbers(0.01, 1.0),
    "goal_time": numbers(0.0, 2.0),
    "repeated_time": numbers(0.005, 0.05),
    "repeated_torque_share": numbers(0.02, 2.0),
    "velocity_mismatch": numbers(0.005, 0.1),
    "delay_growth": st.sampled_from([0.0, 0.05]),
    "overspeed_factor": numbers(1.5, 4.0),
    "tracking_limit": each(0.1, 2.0) | st.just((0.0,)),
    "effort_limit": each(0.0, 0.0),
    "velocity_limit": st.sampled_from([(0.0,), (0.3,), (3.0,)]),
    "repeated_time_at_rest": numbers(0.5, 10.0),
    "tank_capacity": st.sampled_from([0.0, 0.2, 1.0, 10.0]),
    "tank_refill": numbers(0.0, 5.0),
    "passivity_margin": numbers(0.0, 1.0),
    "passivity_tolerance": numbers(0.0, 10.0),
    "passivity_window": numbers(0.01, 1.0),
    "friction_model": st.sampled_from(list(MODELS)),
    "friction_coulomb": each(0.0, 0.2),
    "friction_viscous": each(0.0, 0.2),
    "friction_offset": st.just((0.0,)),
    "friction_velocity_scale": each(0.01, 0.2),
    "friction_stribeck": each(0.0, 0.1),
    "friction_stribeck_velocity": each(0.05, 0.2),
    "friction_f1": each(0.0, 0.2),
    "friction_f2": each(1.0, 20.0),
    "friction_f3": each(-0.1, 0.1),
    "adapted_links": st.sampled_from([(), ("all",)]),
    "learning_rate": numbers(0.1, 20.0),
    "largest_payload_mass": numbers(0.5, 4.0),
    "largest_payload_reach": numbers(0.05, 0.3),
}
"""Strategies for parameters whose bounds admit more than an arm can stand."""


def _of_bounds(item: Any) -> SearchStrategy[Any]:
    """Any value that the declaration of a parameter admits."""
    meta = item.metadata
    if meta["choices"]:
        return st.sampled_from(meta["choices"])
    if isinstance(item.default, bool):
        return st.booleans()
    low = max(meta["lower"], meta["above"] + 1e-6)
    if isinstance(item.default, int):
        return st.integers(int(low), int(meta["upper"]))
    values = numbers(low, meta["upper"])
    return values.map(lambda x: (x,)) if meta["per_joint"] else values


def _parameter_values() -> dict[str, SearchStrategy[Any]]:
    return {
        item.name: GAINS[item.name] if item.name in GAINS else _of_bounds(item)
        for item in fields(ControllerParameters)
        if item.metadata["live"]
    }


PARAMETERS = _parameter_values()


@st.composite
def changes(draw: st.DrawFn, most: int = 3) -> dict[str, Any]:
    """Return new values of a few parameters."""
    names = draw(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=most))
    return {name: draw(PARAMETERS[name]) for name in dict.fromkeys(names)}


LOOPS = st.sampled_from(["fast"] * 4 + ["late"] * 2 + ["elastic"] * 2 + ["unknown"] * 2)
"""Kinds of loops: as fast as the joint states; with a delay that ``loop_delay`` states; with
elastic gears and a delay; with a delay of 25 ms that ``loop_delay`` lacks, and is not stable."""

COMMAND_DELAYS = st.sampled_from([0.0, 0.005, 0.01])
"""Delays from a command to its torque [s]."""
VELOCITY_LAGS = st.sampled_from([0.0, 0.002, 0.005])
"""Time constants of the filter of the velocities [s]; with the delay at most 15 ms."""


ELASTIC_SHARE = 0.45
"""Share of the largest ``damping_rate`` of the rigid loop for an arm with elastic gears: with it
all, encoders on the motors, and a delay of 5 ms, rotors of a fifth of the inertia of the joint are
not stable."""


class _DrawnLoop(NamedTuple):
    """A loop, and the gains for it."""

    gains: dict[str, Any]
    delay: float = 0.0
    velocity_lag: float = 0.0
    elastic: Elastic | None = None


@st.composite
def _loops(draw: st.DrawFn, period: float) -> _DrawnLoop:
    """Return a loop, with gains that are stable if ``loop_delay`` is right."""
    kind = draw(LOOPS)
    if kind == "unknown":  # With less torque it swings, with more it is soon too fast.
        gains = _gains(period, 0.0, 0.0, 100.0, 0.2)
        return _DrawnLoop(gains | {"torque_share": (0.3,), "overspeed_factor": 4.0}, 0.025)
    if kind == "fast":
        return _DrawnLoop(_gains(period, 0.0, 0.0, 40.0))
    delay, lag = draw(COMMAND_DELAYS), draw(VELOCITY_LAGS)
    most = draw(st.sampled_from([8.0, 12.0, 100.0]))
    if kind == "late":
        return _DrawnLoop(_gains(period, delay + lag, 0.0, most), delay, lag)
    elastic = Elastic(draw(numbers(0.2, 0.3)), draw(numbers(25.0, 60.0)), draw(st.booleans()))
    gains = _gains(period, delay + lag, elastic.resonance, most)
    gains |= {"damping_rate": ELASTIC_SHARE * gains["damping_rate"], "bandwidth": (0.0,)}
    return _DrawnLoop(gains, delay, lag, elastic)


def _gains(
    period: float, delay: float, resonance: float, most: float, ratio: float = 0.5
) -> dict[str, Any]:
    """Return stable gains, with the largest ``damping_rate`` up to ``most``."""
    rate = min(most, 0.999 * Loop(period, delay, resonance).largest_rate(ratio))
    gains = {"damping_rate": rate, "bandwidth": (ratio * rate,)}
    return gains | {"loop_delay": delay, "resonance": resonance}


SAFE_CHOICES = st.sampled_from(["damping", "zero"])
REACTIONS = st.sampled_from(["hold", "retract", "float", "slow", "none"])


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """Return an arm with possible flaws, and initial parameters."""
    name = draw(st.sampled_from(sorted(JOINTS)))
    flaw = draw(st.sampled_from(["none", "none", "none", "no effort", "no speed", "weak"]))
    flawed = draw(st.integers(0, len(JOINTS[name]) - 1))
    arm = make_arm(name, flaw, flawed)
    compensated = draw(st.booleans())
    slow = draw(st.sampled_from([False, False, True]))
    chosen = {
        "safe_torque": draw(SAFE_CHOICES),
        "contact_reaction": draw(REACTIONS),
        "tank_capacity": draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 5.0])),
        "adaptive": draw(st.sampled_from([False, False, True])),
        "angle_wraparound": draw(st.booleans()),
        "delay_growth": draw(GAINS["delay_growth"]),
    }
    if draw(st.booleans()):
        chosen |= draw(changes())
    if "default_velocity_limit" in chosen:  # Below the measured noise, no arm would start.
        chosen["default_velocity_limit"] = draw(numbers(0.01, 100.0))
    start = arm.home.copy()
    limited = np.flatnonzero(~arm.continuous)
    if draw(st.sampled_from([False, False, True])):
        j = int(limited[draw(st.integers(0, len(limited) - 1))])
        beyond = draw(numbers(0.02, 0.3))
        upper = draw(st.booleans())
        model = arm.model
        start[j] = model.upper_limit[j] + beyond if upper else model.lower_limit[j] - beyond
    period = 0.005 if slow else 0.001
    loop = draw(_loops(period))
    return Setup(
        arm,
        chosen | loop.gains,
        compensated,
        period,
        draw(st.sampled_from([(0.0, 0.0), (1e-6, 1e-4)])),
        draw(st.sampled_from([(0.0, 0.0), (0.0, 0.0), (1e-6, 2e-4)])),
        draw(st.booleans()),
        draw(st.sampled_from([(0.0, 0.0), (0.1, 0.1)])),
        draw(st.sampled_from([0.0, 0.0, 0.0, 1.0])),
        tuple(start.tolist()),
        loop.delay,
        loop.velocity_lag,
        loop.elastic,
    )


Fractions = tuple[float, ...]
FRACTIONS = st.tuples(*[numbers(-1.0, 1.0)] * MOST_JOINTS)
PATHS = st.lists(FRACTIONS, min_size=1, max_size=4)
PACES = st.sampled_from([0.3, 0.6, 1.0])
"""Mean speed of the fastest joint, in velocity limits."""
DURATIONS = st.sampled_from([0.002, 0.02, 0.06, 0.12, 0.12, 0.3])
"""Times for which the arm runs [s]."""
AFTERWARDS = st.sampled_from([0.02, 0.1, 0.3, 0.6])
"""Times for which it runs with a new trajectory [s]."""


def targets(rig: Rig, path: list[Fractions], size: float) -> list[Array]:
    """Positions within the limits, by fractions of their range; of a turn where there are none."""
    q = rig.desired.copy()
    limited = ~rig.arm.continuous
    middle, half = rig.middle, 0.9 * rig.half_range
    points = []
    for fractions in path:
        x = np.array(fractions[: rig.n])
        q = np.where(limited, q + size * (middle + x * half - q), q + size * 4.0 * x)
        points.append(q)
    return points


def timed(rig: Rig, positions: list[Array], pace: float, moving: bool) -> list[TrajectoryPoint]:
    """Points with times that make the fastest joint go at ``pace``, with or without velocities."""
    speed = np.where(np.isfinite(rig.speed_limit), rig.speed_limit, 1.0)
    at, time, points = rig.desired, 0.0, []
    for k, q in enumerate(positions):
        time += 0.05 + float((np.abs(q - at) / (pace * speed)).max())
        velocity = [0.0] * rig.n if moving or k == len(positions) - 1 else []
        points.append(TrajectoryPoint(q.tolist(), velocity, (), time))
        at = q
    return points


def spoilt(rig: Rig) -> dict[str, tuple[list[str], list[TrajectoryPoint]]]:
    """Trajectories that every controller must reject, by their fault."""
    names = list(rig.arm.model.joint_names)
    here = rig.desired.tolist()
    good = TrajectoryPoint(here, time_from_start=1.0)
    far = [x + 1e3 for x in here]
    return {
        "no points": (names, []),
        "no joints": ([], [good]),
        "unknown joint": ([*names[:-1], "elbw"], [good]),
        "a joint twice": ([*names[:-1], names[0]], [good]),
        "too few positions": (names, [good._replace(positions=here[:-1])]),
        "not a number": (names, [good._replace(positions=[*here[:-1], float("nan")])]),
        "infinite velocity": (names, [good._replace(velocities=[float("inf")] * rig.n)]),
        "huge": (names, [good._replace(positions=[1e300] * rig.n)]),
        "a time that is no number": (names, [good._replace(time_from_start=float("nan"))]),
        "a negative time": (names, [good._replace(time_from_start=-1.0)]),
        "times that go back": (names, [good, good._replace(time_from_start=0.5)]),
        "far away at once": (names, [good._replace(positions=far, time_from_start=1e-3)]),
        "ends in motion": (names, [good._replace(velocities=[0.5] * rig.n)]),
        "texts": (names, [good._replace(positions=["a"] * rig.n)]),  # type: ignore[list-item]
    }


SPOILT = sorted(
    ("no points", "no joints", "unknown joint", "a joint twice", "too few positions")
    + ("not a number", "infinite velocity", "huge", "a time that is no number", "a negative time")
    + ("times that go back", "far away at once", "ends in motion", "texts")
)

Unusable = Callable[[Rig, Array, Array], tuple[Array, Array | None, float | None]]


def _with(x: Array, i: int, value: float) -> Array:
    x = x.copy()
    x[i] = value
    return x


WRONG_VELOCITIES: dict[str, Callable[[Array], Array]] = {
    "the wrong sign": np.negative,
    "of another joint": lambda v: v[::-1].copy(),
    "none": np.zeros_like,
    "standing still": lambda v: np.full_like(v, 0.5),
}
"""Velocities that contradict the positions."""

UNUSABLE: dict[str, Unusable] = {
    "no velocity": lambda rig, q, v: (q, None, None),
    "position not a number": lambda rig, q, v: (_with(q, 0, np.nan), v, None),
    "velocity not a number": lambda rig, q, v: (q, _with(v, -1, np.nan), None),
    "infinite position": lambda rig, q, v: (_with(q, -1, np.inf), v, None),
    "huge velocity": lambda rig, q, v: (q, _with(v, 0, 1e300), None),
    "implausible velocity": lambda rig, q, v: (q, _with(v, 0, 1e8), None),
    "a jump": lambda rig, q, v: (_with(q, rig.limited, q[rig.limited] + 1e8), v, None),
    "another number of joints": lambda rig, q, v: (np.append(q, 0.0), v, None),
    "no joints": lambda rig, q, v: (np.zeros(0), np.zeros(0), None),
    "a stamp that is no number": lambda rig, q, v: (q, v, np.nan),
}
"""Joint states that no controller may use."""
