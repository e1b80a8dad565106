"""Random orders and faults of a controller on the simulated arm."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.unchanged.arms import home, model
from bench.unchanged.store import Case, changes
from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.control.reactions import ORDERS
from rbd_control.dynamics import gravity_torque
from rbd_control.errors import RbdControlError
from rbd_control.simulation import SimulatedArm, SimulationParameters

RUNS = 28
EACH = 20
"""Number of orders and faults of each run, of all in :data:`ACTIONS`."""
RIGID: dict[str, Any] = {
    "resonance": 0.0,
    "loop_delay": 0.0,
    "bandwidth": (40.0,),
    "damping_rate": 80.0,
    "damping": (0.3,),
}
"""Stiff gains for a rigid arm without delay."""
FRICTION: dict[str, Any] = {
    "friction_coulomb": (0.3,),
    "friction_viscous": (0.3,),
    "friction_velocity_scale": (0.1,),
    "friction_stribeck": (0.1,),
    "friction_f1": (0.4,),
}
REACTIONS = ("hold", "retract", "float", "slow", "none")
LOST = np.nan
"""Value of a wrong number in a joint state."""

Sample = tuple[float, np.ndarray, np.ndarray | None, np.ndarray | None]
"""Stamp, positions, velocities and efforts of one joint state."""


class Run:
    """One controller on one arm; orders and samples are recorded.

    Args:
        seed: seed of the setup, the orders and the noise.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.name = "crane" if seed % 4 == 2 else "arm7"
        self.model = model(self.name)
        self.parameters = _parameters(seed)
        rate = 250.0 if seed % 7 == 5 else 1000.0
        simulated = SimulationParameters(
            initial_position=tuple(home(self.name)),
            rate=rate,
            seed=seed,
            coulomb=(0.3,),
            viscous=(0.3,),
            mass_error=0.1 if seed % 5 == 4 else 0.0,
            dropout=0.002 if seed % 6 == 1 else 0.0,
            command_delay=2 if seed % 3 == 1 else 0,
        )
        self.rate = rate
        self.arm = SimulatedArm(self.model, simulated)
        self.controller = PassivityController(self.model, self.parameters)
        self.shift, self.late = 0.0, 0.0
        """Shift of the stamps, and of the steady clock [s]."""
        self.drive = np.ones(self.model.nv)
        """Factors of the commanded torque, as of drives with the wrong sign."""
        self.verdict: bool | None = None
        self.commands: list[Command] = []
        self.orders: list[Any] = []
        self.energies: list[int] = []
        self.goals: list[TrajectoryGoal] = []

    @property
    def now(self) -> float:
        """Time on the steady clock [s]."""
        return 100.0 + self.arm.time + self.late

    def order(self, name: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the controller; record its result or its error."""
        result = None
        try:
            result = method(*arguments)
            text = str(result) if isinstance(result, (str, bool, float)) else "done"
        except RbdControlError as error:
            text = f"{type(error).__name__}: {error}"
        self.orders.append([len(self.commands), name, text, self.controller.mode])
        return result

    def start(self) -> None:
        """Start the controller with the present sample."""
        stamp, q, v, _ = self.reading() or (self.arm.time, self.arm.q, self.arm.v, None)
        self.order("start", self.controller.start, stamp, q, v, self.now)

    def run(
        self, seconds: float, spoil: Callable[[Sample, int], Sample | None] | None = None
    ) -> None:
        """Let joint states come; ``spoil`` changes them, and returns None for a lost one."""
        controller = self.controller
        for k in range(round(seconds * self.rate)):
            sample = self.reading()
            if sample is not None and spoil is not None:
                sample = spoil(sample, k)
            command = None
            if sample is not None:
                stamp, q, v, effort = sample
                command = controller.update(stamp, q, v, self.now, effort)
                balance = controller.energy.balance(effort)
                self.energies.append(_checksum(*balance) if balance else 0)
            elif k % 10 == 0:
                command = controller.silence(self.now)
            if self.verdict is not None and k % 20 == 0:
                controller.contact(self.verdict, self.now)
            if command is not None:
                self.commands.append(command)
            self.arm.step(None if command is None else self.drive * self._sent(command))

    def reading(self) -> Sample | None:
        """Return the present joint state with its shifted stamp; None if it was lost."""
        sample = self.arm.reading()
        return (
            None if sample is None else (sample.stamp + self.shift, sample.q, sample.v, sample.tau)
        )

    def _sent(self, command: Command) -> np.ndarray:
        if not self.parameters.gravity_compensated or self.arm.braked:
            return command.torque
        return command.torque + gravity_torque(self.model, self.arm.q)

    def near(self, size: float = 0.4) -> np.ndarray:
        """Return random positions near the desired position, within the limits, (nv,)."""
        q = self.commands[-1].q_d + size * self.rng.uniform(-1.0, 1.0, self.model.nv)
        return np.clip(q, self.model.lower_limit + 0.06, self.model.upper_limit - 0.06)

    def points(self, count: int = 2, time: float = 0.5) -> list[TrajectoryPoint]:
        """Return random points of a trajectory."""
        return [TrajectoryPoint(self.near(), time_from_start=time * (k + 1)) for k in range(count)]

    def follow(self, points: Sequence[TrajectoryPoint], seconds: float = 0.5) -> None:
        """Order a trajectory, and run for some time."""
        names = self.model.joint_names
        self.order("set_trajectory", self.controller.set_trajectory, names, points)
        self.run(seconds)

    def tune(self, **new: Any) -> None:
        """Change parameters."""
        try:
            changed = replace(self.controller.parameters, **new)
        except RbdControlError as error:
            self.orders.append([len(self.commands), "replace", str(error)])
            return
        self.order(f"set {sorted(new)}", self.controller.set_parameters, changed)

    def result(self) -> Case:
        """Return all that was recorded."""
        said = self.commands
        state = [[each.mode, each.goal, each.saturated, each.rate_limited] for each in said]
        law = self.controller.law
        return {
            "torque": np.array([each.torque for each in said]),
            "desired": np.array([_checksum(each.q_d, each.v_d) for each in said], dtype=np.uint32),
            "energies": np.array(self.energies, dtype=np.uint32),
            "state": changes([" ".join(map(str, each)) for each in state]),
            "reason": changes([each.reason for each in said]),
            "orders": self.orders,
            "estimates": law.estimates.to_dict() if self.parameters.adaptive else {},
            "goals": [
                goal.result and [goal.result.status, int(goal.result.code), goal.result.text]
                for goal in self.goals
            ],
        }


def _checksum(*values: Any) -> int:
    return zlib.crc32(b"".join(np.asarray(value, dtype=float).tobytes() for value in values))


def _parameters(seed: int) -> ControllerParameters:
    """Return the parameters of a run; over the runs all choices occur together."""
    models = ("none", "coulomb_viscous", "stribeck", "sigmoid")
    chosen: dict[str, Any] = {} if seed % 3 == 1 else dict(RIGID)
    chosen |= {
        "contact_reaction": REACTIONS[seed % 5],
        "safe_torque": ("damping", "zero")[seed // 2 % 2],
        "adaptive": seed % 3 == 0,
        "adapted_links": ("all",) if seed % 6 == 3 else (),
        "tank_capacity": (0.0, 0.0, 0.5, 5.0)[seed // 3 % 4],
        "friction_model": models[seed % 4],
        "gravity_compensated": seed % 7 in (2, 3),
        "friction_compensated": seed % 7 == 3,
        "require_detector": seed % 8 == 6,
        "delay_growth": 0.05 if seed % 2 else 0.0,
        "bias_rate": 0.0 if seed % 5 == 1 else 3.0,
        "path_tolerance": (0.1,) if seed % 6 == 2 else (0.0,),
        "torque_rate": (300.0,) if seed % 9 == 4 else (20000.0,),
    }
    return ControllerParameters(**chosen, **FRICTION)


# --- Orders --------------------------------------------------------------------------------------


def _trajectory(run: Run) -> None:
    run.follow(run.points(3), 1.0)


def _moving_points(run: Run) -> None:
    n, slow = run.model.nv, 0.2 * run.rng.uniform(-1.0, 1.0, run.model.nv)
    first = TrajectoryPoint(run.near(0.1), slow, np.zeros(n), 0.4)
    run.follow([first, TrajectoryPoint(run.near(0.1), np.zeros(n), (), 0.8)])


def _goal(run: Run, cancels: bool = False, waits: float = 0.0) -> None:
    planned = run.order("plan", run.controller.plan_trajectory, run.model.joint_names, run.points())
    if planned is None:
        return
    run.run(waits)
    goal = TrajectoryGoal(2)
    run.goals.append(goal)
    run.order("accept", run.controller.accept, planned, goal)
    run.run(0.3 if cancels else 1.2)
    if cancels:
        run.order("cancel_goal", run.controller.modes.cancel_goal, goal)


def _stream(run: Run) -> None:
    target = run.commands[-1].q_d
    way = 0.01 * run.rng.uniform(-1.0, 1.0, run.model.nv)
    for _ in range(10):
        target = target + way
        run.follow([TrajectoryPoint(target, time_from_start=0.06)], 0.03)


def _bad_trajectories(run: Run) -> None:
    names, here = run.model.joint_names, run.commands[-1].q_d
    good = TrajectoryPoint(here, time_from_start=1.0)
    for points in (
        [],
        [good._replace(positions=here[:-1])],
        [good._replace(positions=here * LOST)],
        [good._replace(time_from_start=-1.0)],
        [good, good._replace(time_from_start=0.5)],
        [good._replace(positions=here + 1e3)],
        [good._replace(positions=here + 2.0, time_from_start=1e-3)],
        [good._replace(velocities=here * 0.0 + 0.5)],
    ):
        run.order("bad trajectory", run.controller.set_trajectory, names, points)
    run.order("bad names", run.controller.set_trajectory, (*names[:-1], "elbw"), [good])
    run.order("late", run.controller.set_trajectory, names, [good], 10.0, 1.0)


def _to_the_limit(run: Run) -> None:
    joint = int(np.flatnonzero(np.isfinite(run.model.upper_limit))[0])
    target = run.commands[-1].q_d.copy()
    target[joint] = run.model.upper_limit[joint] - 0.02
    run.follow([TrajectoryPoint(target, time_from_start=3.0)], 0.6)


def _plain(name: str, moves: bool = True) -> Callable[[Run], None]:
    def order(run: Run) -> None:
        if moves:
            run.follow(run.points(), 0.3)
        run.order(name, _call(run, name))
        run.run(0.3)

    return order


def _call(run: Run, name: str) -> Callable[[], Any]:
    if name in ORDERS:
        return partial(run.controller.modes.order, name)
    owner = run.controller.modes if name == "cancel" else run.controller
    method: Callable[[], Any] = getattr(owner, name)
    return method


def _retract(run: Run) -> None:
    link, force = run.model.joint_links[-1], run.rng.uniform(-30.0, 30.0, 3)
    run.order("touched", run.controller.set_contact_force, link, force, run.rng.random() >= 0.5)
    run.order("retract", _call(run, "retract"))
    run.run(0.7)


def _contact(run: Run) -> None:
    run.follow(run.points(), 0.3)
    run.order("contact", run.controller.contact, True, run.now)
    run.order(
        "touched",
        run.controller.set_contact_force,
        run.model.joint_links[-1],
        np.array([9.0, 1.0, -5.0]),
    )
    run.verdict = True
    run.arm.push(run.model.joint_links[-1], (5.0, 3.0, -8.0), duration=0.2)
    run.run(0.4)
    run.order("resume", run.controller.resume, run.now)
    run.verdict = False
    run.run(0.1)
    run.order("resume", run.controller.resume, run.now)
    run.run(0.6)


def _lose_the_detector(run: Run) -> None:
    run.verdict = None
    run.run(0.8)
    run.order("warning", run.controller.watches.detector_warning, run.now)
    run.verdict = False


def _fault(run: Run) -> None:
    run.follow(run.points(), 0.3)
    run.order("fault", run.controller.modes.fault, "a fault of the driver")
    run.run(0.3)


# --- Faults --------------------------------------------------------------------------------------


def _spoilt(spoil: Callable[[Sample, int], Sample | None], seconds: float) -> Callable[[Run], None]:
    def fault(run: Run) -> None:
        run.follow(run.points(), 0.3)
        run.run(seconds, spoil)

    return fault


def _frozen(run: Run) -> None:
    run.follow(run.points(), 0.3)
    stamp, q, v, effort = run.reading() or (run.arm.time, run.arm.q, run.arm.v, None)
    run.run(0.15, lambda sample, k: (sample[0], q, v, effort))
    run.order("frozen", lambda: run.controller.path.frozen)


def _push(size: float) -> Callable[[Run], None]:
    def push(run: Run) -> None:
        force = size * run.rng.uniform(-1.0, 1.0, 3)
        run.arm.push(run.model.joint_links[-1], force, duration=0.3)
        run.run(0.6)

    return push


def _reversed_drive(run: Run) -> None:
    run.drive[int(run.rng.integers(run.model.nv))] = -1.0
    run.follow(run.points(), 0.4)
    run.drive[:] = 1.0


def _other_clocks(run: Run) -> None:
    for shift, told in ((0.5, False), (-2.0, False), (-3.0, True)):
        run.follow(run.points(), 0.2)
        run.shift += shift
        if told:
            run.order("clock_went_back", run.controller.clock_went_back)
        run.run(0.1)


def _growing_delay(run: Run) -> None:
    for _ in range(40):
        run.late += 0.002
        run.run(0.004)


def _not_sent(run: Run) -> None:
    for age in (0.001, 0.01, 0.2):
        run.order("not_sent", run.controller.not_sent, age)
        run.run(0.05)


def _observe(run: Run) -> None:
    for k in range(40):
        beside = 0.5 * (k % 2)
        run.controller.observed.take(
            run.arm.time + run.shift + 0.001 * k, run.arm.q + beside, run.arm.v, run.now
        )
    run.order("contradicted", lambda: run.controller.observed.mixed)


def _tune(run: Run) -> None:
    run.follow(run.points(), 0.2)
    run.tune(velocity_limit=(0.3,), bandwidth=(5.0,), damping_rate=15.0)
    run.run(0.2)
    run.tune(damping=(1.0,) * 30)
    run.tune(implausible_speed=1.0)
    run.tune(torque_share=(0.05,))
    run.run(0.2)
    run.order("restore", run.controller.set_parameters, run.parameters)


def _payload(run: Run) -> None:
    mass = float(run.rng.choice([0.5, 1.5, 60.0]))
    loaded = run.model.with_payload(
        run.model.joint_links[-1], mass, (0.05, 0.0, 0.1), np.zeros((3, 3))
    )
    run.order("refuse_heavier", run.controller.refuse_heavier, run.controller.parameters, loaded)
    run.order("payload", run.controller.set_parameters, run.controller.parameters, loaded)
    run.run(0.2)
    run.order("no payload", run.controller.set_parameters, run.controller.parameters, run.model)


def _model_error(run: Run) -> None:
    run.order("model error", run.controller.set_model_error, "the base has moved")
    run.run(0.1)
    run.order("resume", run.controller.resume, run.now)
    run.start()
    run.order("no model error", run.controller.set_model_error, "")


def _estimates(run: Run) -> None:
    found = run.order("estimates", lambda: run.controller.law.estimates)
    if found is not None:
        heavier = tuple(replace(each, mass=1.1 * each.mass) for each in found.links)
        found = replace(found, links=heavier)
        run.order("set_estimates", run.controller.set_estimates, found)
    run.run(0.2)


def _late_goal(run: Run) -> None:
    _goal(run, waits=0.4)


ACTIONS: dict[str, Callable[[Run], None]] = {
    "trajectory": _trajectory,
    "moving points": _moving_points,
    "goal": _goal,
    "late goal": _late_goal,
    "cancelled goal": lambda run: _goal(run, cancels=True),
    "stream": _stream,
    "bad trajectories": _bad_trajectories,
    "to the limit": _to_the_limit,
    "hold": _plain("hold"),
    "cancel": _plain("cancel"),
    "float": _plain("float"),
    "slow": _plain("slow"),
    "resume": _plain("resume"),
    "retract": _retract,
    "contact": _contact,
    "detector lost": _lose_the_detector,
    "fault": _fault,
    "silence": _spoilt(lambda sample, k: None, 0.15),
    "lost samples": _spoilt(lambda sample, k: None if k % 8 < 4 else sample, 0.2),
    "no number": _spoilt(lambda s, k: (s[0], s[1] * LOST, s[2], s[3]), 0.02),
    "few bad": _spoilt(lambda s, k: (s[0], s[1], s[2], s[3]) if k % 9 else (LOST, *s[1:]), 0.2),
    "no velocity": _spoilt(lambda s, k: (s[0], s[1], None, s[3]), 0.02),
    "wrong velocity": _spoilt(
        lambda s, k: (s[0], s[1], None if s[2] is None else -s[2], s[3]), 0.3
    ),
    "wrong number of joints": _spoilt(lambda s, k: (s[0], s[1][:-1], s[2], s[3]), 0.01),
    "a jump": _spoilt(lambda s, k: (s[0], s[1] + 5.0, s[2], s[3]), 0.02),
    "implausible speed": _spoilt(lambda s, k: (s[0], s[1], s[1] * 0.0 + 1e4, s[3]), 0.02),
    "two publishers": _spoilt(lambda s, k: (s[0], s[1] + k % 2, s[2], s[3]), 0.1),
    "repeated stamps": _spoilt(lambda s, k: (s[0] - 0.001 * (k % 2), *s[1:]), 0.1),
    "no effort": _spoilt(lambda s, k: (s[0], s[1], s[2], None), 0.1),
    "frozen": _frozen,
    "push": _push(30.0),
    "hard push": _push(1500.0),
    "reversed drive": _reversed_drive,
    "clocks": _other_clocks,
    "growing delay": _growing_delay,
    "torque not sent": _not_sent,
    "observe": _observe,
    "tune": _tune,
    "payload": _payload,
    "model error": _model_error,
    "estimates": _estimates,
}
"""Orders and faults by name."""


def cases(_data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the results of the runs, and of two measurements of the loop."""
    for seed in range(RUNS):
        yield f"run {seed}", random_run(seed, EACH)
    for seed in (2, 10):
        yield f"loop {seed}", _measured_loop(seed)


def random_run(seed: int, actions: int) -> Case:
    """Return the result of one run with some orders and faults in random order."""
    run = Run(seed)
    if run.parameters.require_detector:
        run.start()
    run.verdict = False
    run.controller.contact(False, run.now)
    run.run(0.01)
    run.start()
    run.run(0.05)
    for name in run.rng.permutation(list(ACTIONS))[:actions]:
        run.orders.append([len(run.commands), f"--- {name}"])
        ACTIONS[name](run)
        run.run(0.1)
        if run.controller.mode == "safe":
            run.order("resume", run.controller.resume, run.now)
            run.run(0.02)
        if run.controller.mode == "safe":
            run.start()
        elif run.controller.mode != "follow":
            run.order("resume", run.controller.resume, run.now)
        run.run(0.1)
    return run.result()


def _measured_loop(seed: int) -> Case:
    run = Run(seed)
    run.verdict = False
    run.controller.contact(False, run.now)
    run.start()
    run.run(0.5)
    run.order("measure_loop", run.controller.loop.begin)
    for _ in range(120):
        run.run(0.5)
        if not run.controller.loop.is_running:
            break
    found = run.controller.loop.result
    if found is None:
        return run.result()
    return run.result() | {
        "loop": {
            **asdict(found),
            "delay": found.delay,
            "loop_delay": found.loop_delay,
            "resonance": found.resonance,
        }
    }
